#!/usr/bin/env python3
"""A small scheduler in the manner of Themis that keeps its own auction and asks Antiphase where its winners stand best.

Themis (Mahajan and others, NSDI 2020) leases GPUs to the jobs that are furthest behind what they would have alone: of each job that
wants hosts it takes rho, the time that the job takes in this cluster over the time that it would take in a cluster of its own, offers
what is free to those with the highest rho, and lets them bid. Who wins, and how much, stays the scheduler's own business here. What it
does not know is which of the many placements of its winners disturb nobody on the network: so it draws ten of them, asks
Antiphase to rank these in one call, and commits the best one in one more.

    antiphase serve --state antiphase.redb --fabric examples/testbed/fabric.yaml
    PYTHONPATH=clients/python python3 examples/themis_loop.py
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field
from typing import Optional

from antiphase import AntiphaseError, Candidate, Client, Conflict, JobHosts, JobSpec, Model

CANDIDATES = 10
"""Placements drawn for the winners of one auction."""
ATTEMPTS = 5
"""How often a round is decided anew because somebody else committed meanwhile."""
ROUND_S = 300.0
"""Time between auctions."""
LEASE_S = 1_200.0
"""How long a winner keeps its hosts before they are auctioned again."""
OFFERED = 0.5
"""The share of the waiting jobs, those furthest behind, that are offered hosts (1 - f in the paper)."""
HOSTS_LEAST, HOSTS_MOST = 2, 5
"""How many hosts a job wants."""
FIELDS = ["ranked.id", "ranked.outcome", "ranked.time_interleaved", "ranked.shifts.job", "ranked.shifts.interleaved_ns", "plan_version"]
"""All that this scheduler reads of an evaluation."""


@dataclass
class Training:
    """A job as this scheduler sees it."""

    name: str
    model: str
    wants: int
    """Hosts."""
    iterations: float
    """Left to do."""
    arrives_s: float
    alone_s: float = 0.0
    """One iteration alone, as Antiphase says."""
    iteration_s: float = 0.0
    """One iteration where it stands, as predicted."""
    total: float = field(init=False)
    hosts: list[str] = field(default_factory=list)
    lease_ends_s: float = 0.0

    def __post_init__(self) -> None:
        self.total = self.iterations

    def rho(self, now_s: float) -> float:
        """Finish-time fairness: the time from arrival to the end, if it ran alone from now on, over the time it takes alone."""
        return (now_s - self.arrives_s + self.iterations * self.alone_s) / (self.total * self.alone_s)

    def spec(self, hosts: list[str]) -> JobSpec:
        return JobSpec(id=self.name, model=Model(name=self.model), hosts=hosts)


def trace(count: int, hosts: int, rng: random.Random) -> list[Training]:
    """Jobs that arrive. None wants more hosts than there are: it would wait for ever."""
    wants = (HOSTS_LEAST, min(HOSTS_MOST, hosts))
    models = ["bert", "roberta", "xlm", "vgg11"]
    return [
        Training(f"j{i}", rng.choice(models), rng.randint(*wants), rng.randint(1_500, 9_000), arrives_s=i * rng.uniform(40.0, 120.0))
        for i in range(count)
    ]


def auction(waiting: list[Training], free: int, now_s: float) -> list[Training]:
    """Who wins: the jobs furthest behind are offered what is free, and each takes all of its bid or nothing."""
    behind = sorted(waiting, key=lambda job: (-job.rho(now_s), job.name))
    offered = behind[: max(1, round(OFFERED * len(behind)))]
    winners = []
    # What those who were offered it leave goes to the others, so that no host stays free for want of a bid.
    for job in offered + behind[len(offered) :]:
        if job.wants <= free:
            winners.append(job)
            free -= job.wants
    return winners


def draw(winners: list[Training], free: list[str], rng: random.Random) -> list[Candidate]:
    """Placements of all winners on what is free: in order, and nine by chance."""
    candidates = []
    for n in range(CANDIDATES):
        hosts = list(free)
        if n > 0:
            rng.shuffle(hosts)
        placements = []
        for job in winners:
            placements.append(JobHosts(job=job.name, hosts=hosts[: job.wants]))
            del hosts[: job.wants]
        candidates.append(Candidate(id=f"c{n}", placements=placements))
    return candidates


@dataclass
class Outcome:
    """What one round came to."""

    chosen: Candidate
    best: float
    """Predicted iterations over the periods, of the candidate that was chosen."""
    first: float
    """The same of the first candidate, which fills hosts in order: what a scheduler takes that does not ask."""
    worst: float
    """The same of the worst of the ten."""


def place(client: Client, winners: list[Training], free: list[str], running: list[Training], rng: random.Random) -> Outcome:
    """Asks for the best of ten placements, and commits it."""
    candidates = draw(winners, free, rng)
    for _ in range(ATTEMPTS):
        answer = client.evaluate([job.spec([]) for job in winners], candidates, objective="time", predict=True, fields=FIELDS)
        solved = {one.id: one for one in answer.ranked if one.outcome == "solved"}
        best = next(one for one in answer.ranked if one.id in solved)
        chosen = next(one for one in candidates if one.id == best.id)
        hosts = {one.job: one.hosts for one in chosen.placements}
        try:
            client.commit(
                [job.spec(hosts[job.name]) for job in winners],
                if_plan_version=answer.plan_version,
                lease_ms=int(2 * LEASE_S * 1_000),
                fields=["plan_version"],
            )
        except Conflict as moved:
            print(f"  {moved}: asking again")
            continue
        for job in winners:
            job.hosts = hosts[job.name]
        # Whoever runs already may run slower beside the new ones, and the auction has to know.
        predicted = {one.job: one.interleaved_ns for one in best.shifts}
        for job in winners + running:
            job.iteration_s = (predicted.get(job.name) or 0) / 1e9 or job.alone_s
        times = {one.id: one.time_interleaved or float("inf") for one in answer.ranked}
        return Outcome(chosen, times[best.id], times[candidates[0].id], max(times.values()))
    raise SystemExit(f"the plan moved {ATTEMPTS} times while one round was decided")


def alone(client: Client, jobs: list[Training], hosts: list[str]) -> None:
    """What an iteration takes alone: the unit of rho. Jobs are asked for one by one, on the first hosts."""
    for job in jobs:
        answer = client.evaluate([job.spec(hosts[: job.wants])], predict=True, fields=["ranked.shifts.job", "ranked.shifts.solo_ns"])
        job.alone_s = next(one.solo_ns or 0 for one in answer.ranked[0].shifts if one.job == job.name) / 1e9


def play(client: Client, jobs: list[Training], hosts: list[str], rng: random.Random) -> int:
    """Runs until all jobs are done; returns how often winners were committed."""
    alone(client, jobs, hosts)
    now_s, commits, gained = 0.0, 0, 0
    while any(job.iterations > 0 for job in jobs):
        here = [job for job in jobs if job.arrives_s <= now_s and job.iterations > 0]
        ended = [job for job in jobs if job.hosts and (job.iterations <= 0 or job.lease_ends_s <= now_s)]
        if ended:
            client.release([job.name for job in ended])
            for job in ended:
                job.hosts = []
        running = [job for job in here if job.hosts]
        taken = {host for job in running for host in job.hosts}
        free = [host for host in hosts if host not in taken]
        winners = auction([job for job in here if not job.hosts], len(free), now_s)
        if winners:
            outcome = place(client, winners, free, running, rng)
            commits += 1
            gained += outcome.best < outcome.first * 0.999
            won = ", ".join(f"{job.name} (rho {job.rho(now_s):.2f}, {job.wants} hosts)" for job in winners)
            others = f"first {outcome.first:.3f}, worst {outcome.worst:.3f}"
            print(f"{now_s:5.0f} s  {won} -> {outcome.chosen.id}: {outcome.best:.3f} times alone ({others})")
            if outcome.best > outcome.first:
                raise SystemExit("the candidate that was ranked best is not the best")
            for job in winners:
                job.lease_ends_s = now_s + LEASE_S
        now_s = advance(jobs, now_s)
    leftover = [job.name for job in jobs if job.hosts]
    if leftover:
        client.release(leftover)
    print(f"{len(jobs)} jobs are done after {now_s:.0f} s; {commits} commits, {gained} of them of a better candidate than the first")
    return commits


def advance(jobs: list[Training], now_s: float) -> float:
    """Time goes on to the next auction."""
    for job in jobs:
        if job.hosts:
            job.iterations = max(0.0, job.iterations - ROUND_S / job.iteration_s)
    return now_s + ROUND_S


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Schedules a small trace, and asks Antiphase for placements.")
    parser.add_argument("--url", default="http://127.0.0.1:7480")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=24, help="hosts h1 to hN of the fabric")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    if args.hosts < HOSTS_LEAST:
        parser.error(f"--hosts {args.hosts}: each job wants {HOSTS_LEAST} at least")
    rng = random.Random(args.seed)
    client = Client(args.url)
    try:
        client.ready()
        play(client, trace(args.jobs, args.hosts, rng), [f"h{n}" for n in range(1, args.hosts + 1)], rng)
    except AntiphaseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
