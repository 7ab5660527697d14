"""Messages of the service, generated from proto/schema.json by generate.py: do not edit.

Every field has a default. Names, units and meanings are those of proto/antiphase/v1alpha1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Optional, Union

from .message import Message

AgentState = Literal["unspecified", "connected", "lost", "quarantined"]
"""lost: no session; its pages live until the plan expires. quarantined: its clock bound is worse than the slack of a job that it
leads."""


Apart = Literal["unspecified", "shifts", "turns", "free"]
"""What keeps jobs apart that share a link and could exceed it. unspecified: nothing has to: one job, or jobs that never exceed
it. shifts: their slots, as far as the score says. turns: they take turns. free: nothing: their group was let go, so they run
as they come."""


JobState = Literal["unspecified", "committed", "held", "free", "drifting", "open"]
"""committed: no report of its gate yet. held: its gate holds it to the slot. free: runs as it comes: nobody holds it. drifting:
further from its slot than the slack. open: its gate fails open."""


Mode = Literal["unspecified", "exact", "cassini"]
"""unspecified: exact."""


Objective = Literal["unspecified", "score", "time"]
"""unspecified: score."""


Outcome = Literal["unspecified", "solved", "loop", "unsolved"]
"""loop: cassini mode: the affinity graph has a loop."""


RunReport = Literal["unspecified", "started", "finished", "stopped"]
"""unspecified: refused. started: it runs; repeated, it renews the job's lease. finished: it ran to its end. stopped: it stopped,
as it was told or by itself, and holds no GPU any more."""


Severity = Literal["unspecified", "info", "warning", "error"]


SubmissionState = Literal["unspecified", "queued", "starting", "running", "stopping", "finished", "withdrawn", "failed"]
"""starting: the executor was told to start it. stopping: the executor was told to stop it; it holds its GPUs until that is done.
failed: it was started in vain too often."""


TurnActivity = Literal["unspecified", "away", "ahead", "waiting", "sending"]
"""away: computes, or nobody knows. ahead: computes, and has the permission for its next start. waiting: is ready, and waits for
its turn. sending: has the turn."""


TurnGroupState = Literal["unspecified", "held", "tried_free", "let_go", "tried_held"]
"""held: its jobs take turns. tried_free: takes turns, and runs free for a short stretch, to compare. let_go: runs free: turns
were found to be worth nothing. tried_held: was let go, and takes turns for a short stretch, to compare."""


@dataclass(frozen=True, kw_only=True)
class Agent(Message):
    """Agent."""

    clock_bound_ns: Optional[int] = None
    """Bound of the error of its clock offset; absent before the first estimate."""
    clock_rtt_ns: Optional[int] = None
    host: str = ""
    jobs: list[str] = field(default_factory=list)
    last_seen_ns: int = 0
    plan_version: int = 0
    """Version of the plan that it acknowledged."""
    ports: list[str] = field(default_factory=list)
    state: AgentState = "unspecified"
    trouble: str = ""
    """What is wrong with its name, in a sentence: the fabric has no such host, or two agents take it in turn. Empty: nothing."""
    version: str = ""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class AuditEntry(Message):
    """AuditEntry."""

    at_ns: int = 0
    by: str = ""
    """The common name of a certificate and its role; without certificates the user and "on this machine", or "this machine"
    where the kernel tells no user; or "the configuration"."""
    kind: str = ""
    """committed, released, fabric or submitted; job_withdrawn, job_preempt or withdrawing of a job that was withdrawn."""
    message: str = ""
    number: int = 0
    """Counts the changes that somebody asked for, over restarts."""
    plan_version: int = 0
    """The version of the plan from then on."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Candidate(Message):
    """Candidate."""

    id: str = ""
    placements: list[JobHosts] = field(default_factory=list)
    """The jobs that stand elsewhere, or nowhere else yet."""
    NESTED: ClassVar[dict[str, str]] = {"placements": "JobHosts"}


@dataclass(frozen=True, kw_only=True)
class CommitRequest(Message):
    """CommitRequest."""

    explain: bool = False
    """Say why the plan is as it is for these jobs, as `evaluate` would of all committed jobs where they stand."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    idempotency_key: str = ""
    """Repeating a commit with the same key within the day answers as the first did."""
    if_plan_version: Optional[int] = None
    """Refuse unless the plan is at this version: a decision made on an old snapshot must not be committed blindly."""
    jobs: list[JobSpec] = field(default_factory=list)
    lease_ms: int = 0
    """How long the jobs stay without a renewal, in milliseconds; 0 = until released. A report of the job's agent renews it that
    counts iterations of the job."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class CommitResponse(Message):
    """CommitResponse."""

    explanation: list[str] = field(default_factory=list)
    """When asked for."""
    moved: list[str] = field(default_factory=list)
    """Running jobs whose slot moved."""
    plan_version: int = 0
    score: float = 0.0
    slots: list[Slot] = field(default_factory=list)
    """The slots of the jobs in the components that the commit touched."""
    warnings: list[str] = field(default_factory=list)
    """What may be a mistake: hosts on which these jobs and others use more GPUs than there are, and hosts that lead these jobs
    and have no agent."""
    NESTED: ClassVar[dict[str, str]] = {"slots": "Slot"}


@dataclass(frozen=True, kw_only=True)
class CounterSeries(Message):
    """Increments per step, parallel to the series' `at_ms`. A counter that the host lacks has no series: absent is not 0."""

    delta: list[int] = field(default_factory=list)
    name: str = ""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Demand(Message):
    """What one job asks of one link, over one period from its own start."""

    job: str = ""
    period_ns: int = 0
    phases: list[Phase] = field(default_factory=list)
    shift_ns: int = 0
    NESTED: ClassVar[dict[str, str]] = {"phases": "Phase"}


@dataclass(frozen=True, kw_only=True)
class Difference(Message):
    """A difference between the fabric and what was seen, as `antiphase fabric diff` names it."""

    kind: str = ""
    """"missing node", "extra node", "other kind", "missing cable", "extra cable", "moved cable", "capacity" or "one way"."""
    place: str = ""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Message):
    """EvaluateRequest."""

    candidates: list[Candidate] = field(default_factory=list)
    """None: the committed jobs and `jobs` where they stand."""
    explain: bool = False
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as paths of a google.protobuf.FieldMask that also lead through lists, such as
    "ranked.mean_score". None, or "*": all. In JSON also one text with commas, and in HTTP a key of the query."""
    jobs: list[JobSpec] = field(default_factory=list)
    """Jobs that are not committed yet; a committed job may be named by candidates without being repeated here."""
    mode: Mode = "unspecified"
    objective: Objective = "unspecified"
    predict: bool = False
    """Predict iteration times even where the objective does not need them: as the jobs come, by turns and by slots. `explain`
    then says who takes turns with whom, and why."""
    NESTED: ClassVar[dict[str, str]] = {"candidates": "Candidate", "jobs": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class EvaluateResponse(Message):
    """EvaluateResponse."""

    elapsed_us: int = 0
    fabric_version: int = 0
    """Version of the fabric and version of the plan that were used."""
    plan_version: int = 0
    ranked: list[Evaluation] = field(default_factory=list)
    """Best first."""
    NESTED: ClassVar[dict[str, str]] = {"ranked": "Evaluation"}


@dataclass(frozen=True, kw_only=True)
class Evaluation(Message):
    """Evaluation."""

    bound_gap: float = 0.0
    explanation: list[str] = field(default_factory=list)
    id: str = ""
    index: int = 0
    """Place in the request's list."""
    links: list[LinkScore] = field(default_factory=list)
    mean_score: Optional[float] = None
    """Mean over links with two or more jobs; absent unless solved."""
    outcome: Outcome = "unspecified"
    overlap_by_slots: Optional[float] = None
    overlap_by_turns: Optional[float] = None
    overlap_free: Optional[float] = None
    proven: bool = False
    reason: str = ""
    """Why, when not solved."""
    shared_links: int = 0
    shifts: list[JobShift] = field(default_factory=list)
    time_all_held: Optional[float] = None
    time_by_slots: Optional[float] = None
    time_by_turns: Optional[float] = None
    time_contended: Optional[float] = None
    time_free: Optional[float] = None
    """As the jobs come, by turns and by slots, predicted by the same runs: iteration over period as above, and the share of the
    time in use in which shared links are above capacity. `time_interleaved` is that of the service's control."""
    time_interleaved: Optional[float] = None
    time_solo: Optional[float] = None
    """GPU-weighted iteration time as a multiple of the declared period, when predicted."""
    zero_shift_mean_score: Optional[float] = None
    NESTED: ClassVar[dict[str, str]] = {"links": "LinkScore", "shifts": "JobShift"}


@dataclass(frozen=True, kw_only=True)
class Event(Message):
    """Event."""

    at_ns: int = 0
    by: str = ""
    """Who asked for it: the common name of a certificate and its role; without certificates the user and "on this machine", or
    "this machine" where the kernel tells no user; or "the configuration". Empty: nobody did, it happened."""
    host: str = ""
    job: str = ""
    kind: str = ""
    """One word of kind, such as committed, released, moved, drift, lost, quarantined, expired."""
    message: str = ""
    order: Optional[Order] = None
    """With the kinds job_start, job_preempt and job_move."""
    plan_version: int = 0
    sequence: int = 0
    severity: Severity = "unspecified"
    NESTED: ClassVar[dict[str, str]] = {"order": "Order"}


@dataclass(frozen=True, kw_only=True)
class Exporter(Message):
    """A switch, or host, that the configuration names as an exporter of sFlow."""

    address: str = ""
    """The agent address in its datagrams."""
    age_ms: Optional[int] = None
    """Since its last datagram; absent where none came."""
    datagrams: int = 0
    interfaces: int = 0
    """Interfaces whose counters it sends and that have a name."""
    links: int = 0
    """Directed links that it observes now."""
    node: str = ""
    """Its name in the fabric."""
    notes: list[str] = field(default_factory=list)
    """What is not as fabric and configuration have it, in sentences; at most nine."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetFabricRequest(Message):
    """GetFabricRequest."""

    summary: bool = False
    """Only the counts, not the document."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetFabricResponse(Message):
    """GetFabricResponse."""

    fabric: str = ""
    fabric_version: int = 0
    hosts: int = 0
    links: int = 0
    switches: int = 0
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetObservedRequest(Message):
    """GetObservedRequest."""

    summary: bool = False
    """Only the counts and the differences, not the document."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetObservedResponse(Message):
    """GetObservedResponse."""

    confirmed: int = 0
    differences: list[Difference] = field(default_factory=list)
    """At most 1,000."""
    fabric: str = ""
    """The fabric with what was seen (antiphase.fabric/v1, YAML): cables that were seen where they should be are `observed`, with
    the capacity that was negotiated where nobody stated one, and what nobody stated comes last."""
    fabric_version: int = 0
    """Of the fabric that it was compared with; 0: none is set."""
    findings: list[str] = field(default_factory=list)
    """What was odd about what systems told, in sentences; at most 1,000."""
    seen: int = 0
    """Cables that were seen; those of them that are in the fabric; and those of the fabric that no system could have seen."""
    systems: int = 0
    """Systems that told what they see."""
    total: int = 0
    """All of them."""
    unseen: int = 0
    NESTED: ClassVar[dict[str, str]] = {"differences": "Difference"}


@dataclass(frozen=True, kw_only=True)
class GetPlanRequest(Message):
    """GetPlanRequest."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetTelemetryRequest(Message):
    """GetTelemetryRequest."""

    all_hosts: bool = False
    """All hosts that the service holds samples of."""
    hosts: list[str] = field(default_factory=list)
    """Hosts and jobs; both empty: all jobs and no host."""
    jobs: list[str] = field(default_factory=list)
    seconds: int = 0
    """Seconds back from now; 0: the default of 300."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetTelemetryResponse(Message):
    """GetTelemetryResponse."""

    hosts: list[HostSeries] = field(default_factory=list)
    jobs: list[JobSeries] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {"hosts": "HostSeries", "jobs": "JobSeries"}


@dataclass(frozen=True, kw_only=True)
class HostGpus(Message):
    """GPUs of one host."""

    gpus: list[int] = field(default_factory=list)
    """Which of its GPUs, from 0. The ranks of a job stand in the order of its hosts, and on each host in that of its GPUs."""
    host: str = ""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class HostSeries(Message):
    """One value per step; NaN-free: a step without a sample is absent from `at_ms`."""

    at_ms: list[int] = field(default_factory=list)
    counters: list[CounterSeries] = field(default_factory=list)
    host: str = ""
    port: str = ""
    NESTED: ClassVar[dict[str, str]] = {"counters": "CounterSeries"}


@dataclass(frozen=True, kw_only=True)
class Job(Message):
    """Job."""

    declared_period_ns: Optional[int] = None
    """Where the job took turns and was measured to be another than declared: then it is planned with what was measured,
    `solo_period_ns` is that, and this is what was declared. Else absent."""
    fail_opens: Optional[int] = None
    gpus: int = 0
    hold: str = ""
    """As committed: "auto", "phases" or "never"."""
    hold_ended: str = ""
    """Why it is not held to a slot any more, in one line; empty where that is not so."""
    hosts: list[str] = field(default_factory=list)
    id: str = ""
    iteration_ns: Optional[int] = None
    """As its gate saw; absent before the first report."""
    iterations: Optional[int] = None
    learn: str = ""
    """Of a job that is to be learned: "learning" until its agent has told, and `solo_period_ns` is 0 then; "learned". Else
    empty."""
    lease_expires_ns: int = 0
    """0: no lease."""
    measured_up_ns: Optional[int] = None
    """What it sends in an iteration, where it is planned with that because it was measured."""
    observed_period_ns: Optional[int] = None
    """A period observed from byte counters; absent when none was found."""
    period_mismatch_ns: Optional[int] = None
    """The learned period, while it is further from the expected one than 5 %; absent otherwise."""
    phase_error_ns: Optional[int] = None
    predicted_all_held_ns: Optional[int] = None
    predicted_contended_ns: Optional[int] = None
    """Predicted by the fluid model: if nobody of those that it meets were held; and, where slots are the control, if all were."""
    predicted_free_ns: Optional[int] = None
    """Predicted by the same runs, of jobs that start anywhere: as they come, and by turns. Where the service only observes, else
    absent."""
    predicted_interleaved_ns: Optional[int] = None
    """Predicted as it is: exactly those are held whose slots say so."""
    predicted_turns_ns: Optional[int] = None
    shared_links: list[str] = field(default_factory=list)
    """Links it shares with others."""
    slips: Optional[int] = None
    slot: Optional[Slot] = None
    solo_period_ns: int = 0
    """One iteration alone as the job is planned, before headroom: as declared, or as measured."""
    state: JobState = "unspecified"
    NESTED: ClassVar[dict[str, str]] = {"slot": "Slot"}


@dataclass(frozen=True, kw_only=True)
class JobHosts(Message):
    """JobHosts."""

    hosts: list[str] = field(default_factory=list)
    """In rank order, each with the job's GPUs per host."""
    job: str = ""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobSeries(Message):
    """JobSeries."""

    at_ms: list[int] = field(default_factory=list)
    iteration_ns: list[int] = field(default_factory=list)
    job: str = ""
    phase_error_ns: list[int] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobShift(Message):
    """JobShift."""

    all_held_ns: Optional[int] = None
    by_slots_ns: Optional[int] = None
    by_turns_ns: Optional[int] = None
    contended_ns: Optional[int] = None
    free_ns: Optional[int] = None
    """As the jobs come, by turns and by slots, predicted by the same runs."""
    hold: bool = False
    """Whether holding the job to its slot is predicted to help."""
    interleaved_ns: Optional[int] = None
    """When exactly the jobs with `hold` are held, or those with `turns` take turns."""
    job: str = ""
    period_ns: int = 0
    shift_ns: int = 0
    slack_ns: int = 0
    solo_ns: Optional[int] = None
    turns: bool = False
    """Whether the job takes turns with others."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobSpec(Message):
    """One job of a jobs document (antiphase.jobs/v1): the same keys. Exactly one of `model` and `profile`."""

    hold: Optional[str] = None
    """Whether gates may delay its starts: "auto", the default; "phases", the same, and the job asks for its turn before each Up
    phase; or "never"."""
    hosts: list[str] = field(default_factory=list)
    """In rank order, each with the job's GPUs per host. Empty: not placed."""
    id: str = ""
    learn: bool = False
    """The job's agent learns how it communicates, and what it learns replaces the model or the profile, which may be absent
    then: until the agent has told, the job runs free and is planned as if it sent nothing. It counts as a ring over its
    hosts."""
    model: Optional[Model] = None
    profile: Optional[dict[str, Any]] = None
    """A profile document (antiphase.profile/v1) as its JSON text; in HTTP/JSON the document itself stands here."""
    NESTED: ClassVar[dict[str, str]] = {"model": "Model"}


@dataclass(frozen=True, kw_only=True)
class Link(Message):
    """Link."""

    apart: Apart = "unspecified"
    capacity_mbps: int = 0
    demands: list[Demand] = field(default_factory=list)
    from_node: str = ""
    from_tier: int = 0
    """How many switches stand between the end and a host: 0 is a host, 1 a leaf."""
    id: str = ""
    jobs: list[str] = field(default_factory=list)
    mean_demand_ratio: float = 0.0
    """What its jobs send on average as they are planned, over capacity."""
    measured_ratio: Optional[float] = None
    """What the host at its end sent or received in the last ten seconds, over the capacity of all links of that host in this
    direction. Absent where no agent counts bytes."""
    observed_age_ms: Optional[int] = None
    """How old the counters are."""
    observed_excess_ratio: Optional[float] = None
    """The same less mean_demand_ratio: above 0 where the link carries more than its jobs are planned to send."""
    observed_mbps: Optional[int] = None
    """What the link carried by the last counters of the switch, or host, at one of its ends (sFlow): the mean over one interval
    of them, of whatever it carried. Absent where nobody exports counters of it, and once they are older than three intervals."""
    observed_ratio: Optional[float] = None
    """The same over capacity, where that is stated."""
    peak_demand_ratio: float = 0.0
    """Sum of the jobs' highest demands over capacity."""
    score: Optional[float] = None
    """As its jobs are kept apart now: with their slots, and without where their group was let go. What turns do no score says.
    Links with two or more jobs only."""
    to_node: str = ""
    to_tier: int = 0
    zero_shift_score: Optional[float] = None
    """If nobody were shifted."""
    NESTED: ClassVar[dict[str, str]] = {"demands": "Demand"}


@dataclass(frozen=True, kw_only=True)
class LinkScore(Message):
    """LinkScore."""

    capacity_mbps: int = 0
    jobs: list[str] = field(default_factory=list)
    link: str = ""
    score: float = 0.0
    zero_shift_score: float = 0.0
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAgentsRequest(Message):
    """ListAgentsRequest."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAgentsResponse(Message):
    """ListAgentsResponse."""

    agents: list[Agent] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {"agents": "Agent"}


@dataclass(frozen=True, kw_only=True)
class ListAuditRequest(Message):
    """ListAuditRequest."""

    after: int = 0
    """Only entries after this number; 0: the last ones."""
    limit: int = 0
    """0: 100. At most 1,000."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAuditResponse(Message):
    """ListAuditResponse."""

    entries: list[AuditEntry] = field(default_factory=list)
    """In the order of their numbers. The last 10,000 are kept."""
    NESTED: ClassVar[dict[str, str]] = {"entries": "AuditEntry"}


@dataclass(frozen=True, kw_only=True)
class ListEventsRequest(Message):
    """ListEventsRequest."""

    after: int = 0
    """After this sequence number."""
    limit: int = 0
    """0: the default of 100."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListEventsResponse(Message):
    """ListEventsResponse."""

    events: list[Event] = field(default_factory=list)
    oldest: int = 0
    """The oldest sequence number that is still held."""
    NESTED: ClassVar[dict[str, str]] = {"events": "Event"}


@dataclass(frozen=True, kw_only=True)
class ListExportersRequest(Message):
    """ListExportersRequest."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListExportersResponse(Message):
    """ListExportersResponse."""

    exporters: list[Exporter] = field(default_factory=list)
    """Those that the configuration names, by node."""
    flow_samples: int = 0
    """They are counted and not read."""
    listen: str = ""
    """Where datagrams are taken, UDP; empty: the configuration has no [sflow]."""
    observed_links: int = 0
    """Directed links whose load is observed now."""
    refused: int = 0
    """Of others, from elsewhere, too many, or that cannot be read."""
    taken: int = 0
    """Datagrams since the start."""
    unknown: list[UnknownExporter] = field(default_factory=list)
    """The last 32 that it does not name."""
    NESTED: ClassVar[dict[str, str]] = {"exporters": "Exporter", "unknown": "UnknownExporter"}


@dataclass(frozen=True, kw_only=True)
class ListJobsRequest(Message):
    """ListJobsRequest."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Empty: all."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListJobsResponse(Message):
    """ListJobsResponse."""

    jobs: list[Job] = field(default_factory=list)
    outlook: str = ""
    """Where the service only observes: what turns would bring, and how to have them, in one line; else empty."""
    plan_version: int = 0
    warnings: list[str] = field(default_factory=list)
    """What nothing else says of these jobs: a line for each host that leads some of them and whose agent is not connected, so
    that they are neither held nor measured, and for each job that takes turns and is far from what it is planned with."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "Job"}


@dataclass(frozen=True, kw_only=True)
class ListLinksRequest(Message):
    """ListLinksRequest."""

    demands: bool = False
    """Add the demand of each job on each link."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Only links that one of these jobs uses; empty: of all jobs."""
    limit: int = 0
    """0: the default of 100."""
    links: list[str] = field(default_factory=list)
    """Only these links, without those that carry no job; empty: the worst ones."""
    measured: bool = False
    """Only links with a measured load."""
    observed: bool = False
    """Only links whose load is observed, with and without demand, the fullest first."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListLinksResponse(Message):
    """ListLinksResponse."""

    links: list[Link] = field(default_factory=list)
    plan_version: int = 0
    total: int = 0
    """Links with demand, of the jobs that were named, whether or not they are among `links`; if asked for those only, links
    whose load is observed."""
    NESTED: ClassVar[dict[str, str]] = {"links": "Link"}


@dataclass(frozen=True, kw_only=True)
class ListSubmissionsRequest(Message):
    """ListSubmissionsRequest."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Empty: all."""
    live: bool = False
    """Only those that are not over."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListSubmissionsResponse(Message):
    """ListSubmissionsResponse."""

    gpus: int = 0
    """GPUs of the hosts on which the scheduler may start jobs, and those of them that its jobs hold."""
    gpus_held: int = 0
    policy: str = ""
    submissions: list[Submission] = field(default_factory=list)
    """In order of submission."""
    NESTED: ClassVar[dict[str, str]] = {"submissions": "Submission"}


@dataclass(frozen=True, kw_only=True)
class ListTurnsRequest(Message):
    """ListTurnsRequest."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Only the groups of these jobs; empty: all groups, those first that were let go or are being tried, then the largest."""
    limit: int = 0
    """Most groups; 0: the default of 100."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListTurnsResponse(Message):
    """ListTurnsResponse."""

    at_ns: int = 0
    """Fabric time of the answer: times within it are to be compared with this."""
    groups: list[TurnGroup] = field(default_factory=list)
    plan_version: int = 0
    total: int = 0
    """Groups, whether or not they are among `groups`."""
    NESTED: ClassVar[dict[str, str]] = {"groups": "TurnGroup"}


@dataclass(frozen=True, kw_only=True)
class Model(Message):
    """Synthesise the profile of this model; what is absent comes from the model's reference."""

    batch: Optional[int] = None
    cp: Optional[int] = None
    dp: Optional[int] = None
    ep: Optional[int] = None
    gpu_gflops: Optional[int] = None
    gpus_per_host: Optional[int] = None
    micro_batches: Optional[int] = None
    name: str = ""
    nic: Optional[str] = None
    nics_per_host: Optional[int] = None
    pp: Optional[int] = None
    ranks: Optional[int] = None
    strategy: Optional[str] = None
    tp: Optional[int] = None
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Order(Message):
    """What the executor is told to do."""

    attempt: int = 0
    """Which start of the job."""
    place: list[HostGpus] = field(default_factory=list)
    """Where it is to stand, or stands."""
    until_ns: int = 0
    """When it has to be done: then the place is given back."""
    NESTED: ClassVar[dict[str, str]] = {"place": "HostGpus"}


@dataclass(frozen=True, kw_only=True)
class Phase(Message):
    """Phase."""

    end_ns: int = 0
    rate_mbps: int = 0
    start_ns: int = 0
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Plan(Message):
    """Plan."""

    plan_version: int = 0
    slots: list[Slot] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {"slots": "Slot"}


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(Message):
    """ReleaseRequest."""

    explain: bool = False
    """Say how the plan is now for the jobs that shared links with these."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ReleaseResponse(Message):
    """ReleaseResponse."""

    explanation: list[str] = field(default_factory=list)
    """When asked for; empty where they shared no link with anybody."""
    plan_version: int = 0
    unknown: list[str] = field(default_factory=list)
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Message):
    """ReportRequest."""

    attempt: int = 0
    """Which start of the job, as its order says."""
    job: str = ""
    report: RunReport = "unspecified"
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SetFabricRequest(Message):
    """SetFabricRequest."""

    fabric: str = ""
    """antiphase.fabric/v1 (YAML)."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SetFabricResponse(Message):
    """SetFabricResponse."""

    fabric_version: int = 0
    plan_version: int = 0
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Slot(Message):
    """When a job may start its iterations. Fabric time is nanoseconds since the Unix epoch on the service's clock."""

    expires_ns: int = 0
    """The plan must not be trusted from this fabric time on."""
    hold: bool = False
    """False: run as it comes; the page says so and the gate lets everything pass. Each job for itself: of jobs that meet, some
    may be held and others not."""
    hold_max_ns: int = 0
    """Longest time that a start may be held; at most the period."""
    job: str = ""
    leader_host: str = ""
    """The host whose leader rank waits."""
    offset_ns: int = 0
    """A start is due whenever fabric time modulo the period equals this. Below the period."""
    period_ns: int = 0
    plan_version: int = 0
    """Plan version in which this slot was last changed."""
    slack_ns: int = 0
    """How far the job may drift before a score falls."""
    tolerance_ns: int = 0
    """How late a start may be and still go at once."""
    turns: bool = False
    """The job takes turns with others instead of keeping to slots; `hold` and the fields of the slot are not looked at then."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SolveRequest(Message):
    """SolveRequest."""

    mode: Mode = "unspecified"
    robust_ticks: Optional[int] = None
    """Robust mode: allow for this much drift, in the scenario's ticks."""
    scenario: str = ""
    """A scenario document, antiphase.scenario/v1 (JSON)."""
    shifts: dict[str, int] = field(default_factory=dict)
    """Only evaluate these shifts, in ticks, by job id."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SolveResponse(Message):
    """SolveResponse."""

    solution: str = ""
    """A solution document, antiphase.solution/v1 (JSON)."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Submission(Message):
    """A job that was submitted, and what became of it."""

    attempt: int = 0
    """Counts its starts; reports name it."""
    failures: int = 0
    """Starts that came to nothing."""
    gpus: int = 0
    job: str = ""
    lease_ms: int = 0
    """0: no lease."""
    left_ns: int = 0
    opportunistic: bool = False
    place: list[HostGpus] = field(default_factory=list)
    """The GPUs that it holds, the host of rank 0 first."""
    planned: bool = False
    """Whether it has a place in the plan; a job that runs free has none."""
    ran_ns: int = 0
    """How long it has run, and how long it still takes alone, as declared."""
    since_ns: int = 0
    """When it came into its state."""
    state: SubmissionState = "unspecified"
    submitted_ns: int = 0
    why: str = ""
    """Why it is in its state; of a job in the queue, what it waits for."""
    NESTED: ClassVar[dict[str, str]] = {"place": "HostGpus"}


@dataclass(frozen=True, kw_only=True)
class SubmitRequest(Message):
    """SubmitRequest."""

    duration_s: Optional[int] = None
    """How long it takes alone, in place of both."""
    gpus: int = 0
    """GPUs that it needs, all or none."""
    iteration_ms: Optional[int] = None
    iterations: Optional[int] = None
    """Iterations that it runs, and how long one takes alone; a profile says that as well."""
    job: Optional[JobSpec] = None
    """The job, without hosts. Without a model or a profile it holds GPUs and has no place in the plan: nobody knows how it
    communicates."""
    lease_ms: int = 0
    """How long it keeps its GPUs while the executor says nothing of it, in milliseconds; at least 1,000; 0 = until it is
    reported to have ended."""
    priority: Optional[str] = None
    """"guaranteed", the default; "opportunistic": it runs on what others leave, and is the first to be stopped."""
    NESTED: ClassVar[dict[str, str]] = {"job": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class TurnGroup(Message):
    """Jobs that take turns, directly or through others. Jobs of different groups never wait for each other."""

    jobs: list[TurnJob] = field(default_factory=list)
    """In the order in which those go that are ready at the same time."""
    reason: str = ""
    """Why, in words."""
    state: TurnGroupState = "unspecified"
    verdict: Optional[TurnVerdict] = None
    """What the last comparison came to; absent before the first."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "TurnJob", "verdict": "TurnVerdict"}


@dataclass(frozen=True, kw_only=True)
class TurnJob(Message):
    """TurnJob."""

    activity: TurnActivity = "unspecified"
    ahead: int = 0
    """Permissions that were given before the job asked."""
    bound: int = 0
    expected_end_ns: Optional[int] = None
    """Of a job that sends: when it is expected to have sent everything."""
    free: Optional[TurnTimes] = None
    has_no_ends: bool = False
    """Nobody tells the ends of its starts, so it takes no turns."""
    held: Optional[TurnTimes] = None
    """Its last iterations by turns, and while its group ran free; absent where there were none."""
    job: str = ""
    last_starts: list[TurnStart] = field(default_factory=list)
    """The last ones, oldest first: what to draw who waited for whom from."""
    predicted_free_ns: Optional[int] = None
    predicted_held_ns: Optional[int] = None
    """An iteration as predicted: by turns, and free."""
    since_ns: Optional[int] = None
    """Of a job that waits or sends: since when."""
    starts: int = 0
    """Starts since the job came, those of them that waited, and those that went because they had waited for as long as an
    iteration takes."""
    until_ns: Optional[int] = None
    """Of a job that waits: it goes then at the latest. Of one that sends: it keeps nobody waiting for longer."""
    waited: int = 0
    waits_for: list[str] = field(default_factory=list)
    """Of a job that waits: those that send in its way, or else those that came before it."""
    NESTED: ClassVar[dict[str, str]] = {"free": "TurnTimes", "held": "TurnTimes", "last_starts": "TurnStart"}


@dataclass(frozen=True, kw_only=True)
class TurnStart(Message):
    """A start of a job that takes turns, in fabric time."""

    began_ns: Optional[int] = None
    """When it began to send; absent while it waits."""
    ended_ns: Optional[int] = None
    """When it had sent everything; absent while it sends, and where nobody told."""
    ready_ns: int = 0
    """When it was ready."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class TurnTimes(Message):
    """What at most the last 128 iterations of one kind took, from one start to the next. A pause, such as a checkpoint, is no
    iteration."""

    iterations: int = 0
    mean_ns: int = 0
    mean_wait_ns: int = 0
    """How long an iteration waited, in the mean."""
    p50_ns: int = 0
    p99_ns: int = 0
    spread_ns: list[int] = field(default_factory=list)
    """The shortest, each twentieth by length, and the longest: 21 values."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class TurnVerdict(Message):
    """Iterations by turns over iterations free: below 1, turns make them shorter."""

    at_ns: int = 0
    held_over_free: float = 0.0
    """Mean over the jobs, and of the job that loses most."""
    hold: bool = False
    """Whether the group takes turns from then on."""
    worst: float = 0.0
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class UnknownExporter(Message):
    """An agent address that the configuration does not name."""

    address: str = ""
    age_ms: int = 0
    datagrams: int = 0
    source: str = ""
    """Where its datagrams come from."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class WatchEventsRequest(Message):
    """WatchEventsRequest."""

    after: Optional[int] = None
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class WithdrawRequest(Message):
    """WithdrawRequest."""

    job: str = ""
    NESTED: ClassVar[dict[str, str]] = {}
