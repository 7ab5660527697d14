"""Against a real service, whose address is in ANTIPHASE_URL, and against a stand-in that fails in ways that a service seldom does."""

import asyncio
import contextlib
import inspect
import json
import os
import socket
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Coroutine, Iterator, Optional
from unittest import mock

from antiphase import (
    AntiphaseError,
    AsyncClient,
    Candidate,
    Client,
    Conflict,
    Exhausted,
    Forbidden,
    InvalidRequest,
    JobHosts,
    JobSpec,
    Model,
    NotFound,
    Precondition,
    Refused,
    Retries,
    TooLarge,
    Unavailable,
    Unreachable,
)
from antiphase import messages as m
from antiphase import wire

URL = os.environ["ANTIPHASE_URL"]
Script = Callable[[bytes], Optional[bytes]]
QUICK = Retries(attempts=3, first_s=0.001, most_s=0.002)


def job(name: str, *hosts: str) -> JobSpec:
    return JobSpec(id=name, model=Model(name="vgg16"), hosts=list(hosts))


def candidate(name: str, job_name: str, *hosts: str) -> Candidate:
    return Candidate(id=name, placements=[JobHosts(job=job_name, hosts=list(hosts))])


class StandIn:
    """Answers each connection by the next of its scripts; what it was sent is kept."""

    def __init__(self, *scripts: Script) -> None:
        self.heard: list[bytes] = []
        self._scripts = list(scripts)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for script in self._scripts:
            connection, _ = self._socket.accept()
            with connection:
                self.heard.append(request_of(connection))
                answer = script(self.heard[-1])
                if answer is not None:
                    connection.sendall(answer)
        self._socket.close()


def peer(manners: Callable[[socket.socket], None]) -> str:
    """The address of one that does with every connection as it likes, and then closes it, read or not."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                manners(connection)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def silent_addresses(count: int, *others: tuple[str, int]) -> Iterator[None]:
    """Every name has this many addresses that do not answer, and then these others."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        silent: tuple[str, int] = listener.getsockname()
        # The one connection that waits to be taken fills the queue: the next ones hear nothing.
        with socket.create_connection(silent):
            places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in (*[silent] * count, *others)]
            with mock.patch("socket.getaddrinfo", return_value=places):
                yield


def request_of(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(1 << 16)
        if not part:
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2])


def answer(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def saying(data: bytes) -> Script:
    return lambda _: data


def lost(_: bytes) -> Optional[bytes]:
    return None


def carried_out_and_lost(request: bytes) -> Optional[bytes]:
    """The service does it, and the answer never comes."""
    host, port = URL.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port))) as real:
        real.sendall(request)
        while real.recv(1 << 16):
            pass
    return None


def passed_on(request: bytes) -> Optional[bytes]:
    host, port = URL.removeprefix("http://").rsplit(":", 1)
    parts = []
    with socket.create_connection((host, int(port))) as real:
        real.sendall(request)
        while part := real.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def refusal(status: int, code: str) -> Script:
    return lambda _: answer(status, json.dumps({"code": code, "message": "not now", "hint": "try again"}).encode())


class RealService(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(URL)
        names = [one.id for one in self.client.jobs().jobs]
        if names:
            self.client.release(names)

    def test_a_round(self) -> None:
        client = self.client
        client.ready()
        first = client.commit([job("a", "h1", "h5"), job("c", "h3", "h7")], explain=True)
        self.assertEqual(sorted(slot.job for slot in first.slots), ["a", "c"])
        self.assertTrue(first.explanation)
        ranked = client.evaluate(
            [job("b")], [candidate("x", "b", "h2", "h6"), candidate("y", "b", "h9", "h10")], objective="time", predict=True, explain=True
        )
        self.assertEqual({one.id for one in ranked.ranked}, {"x", "y"})
        by_id = {one.id: one for one in ranked.ranked}
        apart, crossing = by_id["y"], by_id["x"]
        self.assertEqual((len(by_id), apart.outcome, crossing.outcome), (2, "solved", "solved"))
        self.assertIsInstance(apart.time_interleaved, float)
        self.assertIsInstance(crossing.links[0], m.LinkScore)
        self.assertIsInstance(crossing.shifts[0], m.JobShift)
        self.assertTrue(crossing.explanation)
        few = client.evaluate([job("b")], [candidate("x", "b", "h2", "h6")], fields=["ranked.id", "plan_version"])
        self.assertEqual(few, m.EvaluateResponse(ranked=[m.Evaluation(id="x")], plan_version=first.plan_version))
        second = client.commit([job("b", "h9", "h10")], if_plan_version=ranked.plan_version, lease_ms=600_000)
        self.assertGreater(second.plan_version, first.plan_version)
        listed = client.jobs(["b"]).jobs[0]
        self.assertEqual((listed.hosts, listed.lease_expires_ns > 0), (["h9", "h10"], True))
        self.assertEqual(len(client.plan().slots), 3)
        links = client.links(limit=1, demands=True).links
        self.assertTrue(len(links) == 1 and links[0].demands[0].phases)
        self.assertEqual(client.links([links[0].id]).links[0].id, links[0].id)
        self.assertEqual(client.agents().agents, [])
        self.assertEqual(client.turns().plan_version, second.plan_version)
        self.assertTrue(any(event.kind == "committed" for event in client.events(limit=100).events))
        summary = client.fabric(summary=True)
        self.assertEqual((summary.hosts, summary.fabric), (24, ""))
        self.assertEqual(client.release(["b", "moon"]).unknown, ["moon"])
        entries = client.audit(limit=1).entries
        self.assertEqual([entry.kind for entry in entries], ["released"])
        # The user of this machine, by the kernel, where it tells.
        self.assertTrue(entries[0].by.endswith("this machine"), entries[0].by)
        left = client.release(["c"], explain=True, fields=["explanation"])
        self.assertEqual((left.plan_version, len(left.explanation)), (0, 1))

    def test_the_page_for_authors_of_schedulers_says_the_score_that_is_answered(self) -> None:
        page = (Path(__file__).parents[3] / "docs" / "scheduler-author.md").read_text()
        self.client.commit([job("a", "h1", "h5"), job("c", "h3", "h7")])
        crossing = self.client.evaluate([job("b")], [candidate("x", "b", "h2", "h6")]).ranked[0]
        self.assertEqual((len(crossing.links), crossing.mean_score), (8, 1.0))
        self.assertIn(f"exceed eight links together (score {crossing.zero_shift_mean_score:.3f})", page)

    def test_refusals_are_the_one_line_of_the_service(self) -> None:
        client = self.client
        committed = client.commit([job("a", "h1", "h5")])
        with self.assertRaises(Conflict) as conflict:
            client.commit([job("b", "h2", "h6")], if_plan_version=committed.plan_version - 1)
        self.assertEqual((conflict.exception.code, conflict.exception.status), ("conflict", 409))
        with self.assertRaises(InvalidRequest) as invalid:
            client.commit([job("b", "moon", "h6")])
        self.assertIn("moon", str(invalid.exception))
        self.assertNotIn("\n", str(invalid.exception))
        with self.assertRaises(NotFound):
            client.jobs(["moon"])
        with self.assertRaises(InvalidRequest) as path:
            client.evaluate(fields=["ranked.moon"])
        self.assertIn("ranked.moon", str(path.exception))
        with self.assertRaises(ValueError):
            Client("ftp://x")

    def test_one_text_is_no_list_of_names(self) -> None:
        client = self.client
        client.commit([job("a", "h1", "h5"), job("b", "h9", "h10")])
        # A text is an iterable of texts, so no type checker says a word: these would name the jobs a and b.
        for call in (client.release, client.jobs, client.turns, client.links):
            with self.assertRaisesRegex(TypeError, r"'ab' is a text; expected a list of names, such as \['ab'\]"):
                call("ab")
        with self.assertRaisesRegex(TypeError, "JobSpec.* is no text"):
            client.release([job("a")])  # type: ignore[list-item]
        with self.assertRaises(TypeError):
            asyncio.run(AsyncClient(URL).release("ab"))
        self.assertEqual([one.id for one in client.jobs(name for name in "ab").jobs], ["a", "b"])

    def test_fields_are_one_text_or_several(self) -> None:
        client = self.client
        client.commit([job("a", "h1", "h5")])
        paths = ("jobs.id", "jobs.hosts")
        listed = m.ListJobsResponse(jobs=[m.Job(id="a", hosts=["h1", "h5"])])
        self.assertEqual([client.jobs(fields=fields) for fields in (",".join(paths), paths, iter(paths))], [listed] * 3)
        answers = [client.evaluate([job("b", "h2", "h6")], fields=fields) for fields in ("ranked.outcome", ["ranked.outcome"])]
        self.assertEqual(answers, [m.EvaluateResponse(ranked=[m.Evaluation(outcome="solved")])] * 2)
        # None at all is everything.
        self.assertEqual(client.jobs(fields=""), client.jobs())

    def test_a_service_without_a_scheduler_says_so(self) -> None:
        request = m.SubmitRequest(job=job("s"), gpus=4, iterations=10)
        asks: list[Callable[[], Any]] = [
            lambda: self.client.submit(request),
            lambda: self.client.withdraw("s"),
            lambda: self.client.submissions(["s"], live=True),
            lambda: self.client.report("s", 1, "started"),
        ]
        for ask in asks:
            with self.assertRaisesRegex(Precondition, "this service has no scheduler"):
                ask()

    def test_a_commit_whose_answer_is_lost_is_carried_out_once(self) -> None:
        between = StandIn(carried_out_and_lost, lost, passed_on)
        before = self.client.plan().plan_version
        done = Client(between.url, retries=QUICK).commit([job("a", "h1", "h5")], if_plan_version=before)
        # The plan moved once, although the service was told twice: else the second time would have been a conflict.
        self.assertEqual((done.plan_version, self.client.plan().plan_version), (before + 1, before + 1))
        keys = [body_of(request)["idempotency_key"] for request in between.heard]
        self.assertTrue(len(keys) == 3 and len(set(keys)) == 1 and len(keys[0]) > 16, keys)

    def test_the_same_under_asyncio(self) -> None:
        async def round_trip() -> None:
            client = AsyncClient(URL)
            await client.ready()
            committed = await client.commit([job("a", "h1", "h5")])
            answers = await asyncio.gather(*(client.evaluate([job("b")], [candidate("x", "b", "h2", "h6")]) for _ in range(8)))
            self.assertEqual({one.plan_version for one in answers}, {committed.plan_version})
            with self.assertRaises(Conflict):
                await client.commit([job("b", "h2", "h6")], if_plan_version=committed.plan_version - 1)
            self.assertEqual((await client.release(["a"])).unknown, [])
            between = StandIn(carried_out_and_lost, passed_on)
            before = (await client.plan()).plan_version
            done = await AsyncClient(between.url, retries=QUICK).commit([job("a", "h1", "h5")], if_plan_version=before)
            self.assertEqual(done.plan_version, before + 1)

        asyncio.run(round_trip())

    def test_a_scenario_and_a_fabric(self) -> None:
        phases = [{"start": 0, "end": 50, "rate_mbps": 40_000}]
        jobs = [{"id": name, "period_ticks": 100, "links": ["l"], "phases": phases} for name in ("a", "b")]
        scenario = {"schema": "antiphase.scenario/v1", "tick_ns": 1_000_000, "links": [{"id": "l", "capacity_mbps": 50_000}], "jobs": jobs}
        self.assertEqual(self.client.solve(scenario)["outcome"], "solved")
        text = self.client.fabric()
        self.assertEqual(self.client.set_fabric(text.fabric).fabric_version, text.fabric_version + 1)

    def test_the_fabric_of_another_program_is_sent_again_only_where_it_changed(self) -> None:
        tree = self.client.export("slurm-conf")
        assert tree is not None
        self.assertIn("Nodes=h", tree.text)
        self.assertIsNone(self.client.export("slurm-conf", known=tree.tag))
        # Of another document the tag is another one.
        nodes = self.client.export("kubernetes-labels", label_keys="example.com/t{tier}", manifests=True, known=tree.tag)
        assert nodes is not None
        self.assertEqual(json.loads(nodes.text)["items"][0]["metadata"]["labels"]["example.com/t0"], "leaf1")
        self.assertIsNone(asyncio.run(AsyncClient(URL).export("slurm-conf", known=tree.tag)))
        with self.assertRaises(InvalidRequest):
            self.client.export("nonsense")
        for tag in ("", "x", '"a\r\nx: y"', '"\u00e9"'):
            with self.assertRaises(ValueError):
                self.client.export("native", known=tag)


def both_set(text: str) -> list[Callable[..., Any]]:
    """Sends a fabric, with the client that waits and with the one for asyncio."""
    return [
        lambda url, **more: Client(url, **more).set_fabric(text),
        lambda url, **more: asyncio.run(AsyncClient(url, **more).set_fabric(text)),
    ]


def both(test: Callable[[Callable[..., Any]], None]) -> Callable[[unittest.TestCase], None]:
    """Runs a test with the client that waits and with the one for asyncio."""

    def plan(url: str, **more: Any) -> m.Plan:
        return Client(url, **more).plan()

    def plan_async(url: str, **more: Any) -> m.Plan:
        call: Coroutine[Any, Any, m.Plan] = AsyncClient(url, **more).plan()
        return asyncio.run(call)

    def run(self: unittest.TestCase) -> None:
        for one in (plan, plan_async):
            with self.subTest(one.__name__):
                test(one)

    return run


class Trouble(unittest.TestCase):
    @both
    def test_what_may_pass_is_tried_again(plan: Callable[..., Any]) -> None:
        stand_in = StandIn(refusal(503, "unavailable"), refusal(429, "exhausted"), lambda _: answer(200, b'{"plan_version": 7, "moon": 1}'))
        assert plan(stand_in.url, retries=QUICK).plan_version == 7
        assert len(stand_in.heard) == 3

    @both
    def test_what_does_not_pass_is_raised_at_once(plan: Callable[..., Any]) -> None:
        for status, code, kind in [(403, "forbidden", Forbidden), (400, "invalid", InvalidRequest), (418, "new_word", Refused)]:
            stand_in = StandIn(refusal(status, code))
            try:
                plan(stand_in.url, retries=QUICK)
            except kind as error:
                assert str(error) == "not now (try again)", error
            else:
                raise AssertionError(code)
            assert len(stand_in.heard) == 1

    @both
    def test_attempts_end(plan: Callable[..., Any]) -> None:
        cases: list[tuple[Script, type[AntiphaseError]]] = [
            (refusal(503, "unavailable"), Unavailable),
            (refusal(429, "exhausted"), Exhausted),
            (lost, Unreachable),
        ]
        for script, kind in cases:
            stand_in = StandIn(script, script, script, script)
            try:
                plan(stand_in.url, retries=QUICK)
            except kind:
                pass
            else:
                raise AssertionError(kind)
            assert len(stand_in.heard) == 3, "one more attempt than allowed"

    @both
    def test_answers_that_are_none_are_unreachable(plan: Callable[..., Any]) -> None:
        cut = answer(200, b'{"plan_version": 7}')[:-3]
        chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        for bad in [b"", b"SSH-2.0-x\r\n\r\n", cut, answer(200, b"{"), answer(200, b"[]"), chunks, chunks + b"5\r\nab", chunks + b"zz\r\n\r\n"]:
            try:
                plan(StandIn(saying(bad)).url, retries=Retries(attempts=1))
            except Unreachable as error:
                assert "\n" not in str(error), error
            else:
                raise AssertionError(bad)
        good = chunks + b'9\r\n{"plan_ve\r\na;x=y\r\nrsion": 7}\r\n0\r\n\r\n'
        assert plan(StandIn(saying(good)).url).plan_version == 7

    @both
    def test_who_stands_between_may_refuse_for_now_in_words_of_its_own(plan: Callable[..., Any]) -> None:
        busy = [saying(answer(status, b"<html>\nBusy")) for status in (502, 503, 504, 429)]
        stand_in = StandIn(*busy, saying(answer(200, b'{"plan_version": 7}')))
        assert plan(stand_in.url, retries=Retries(attempts=5, first_s=0.001)).plan_version == 7
        assert len(stand_in.heard) == 5
        try:
            plan(StandIn(busy[0]).url, retries=Retries(attempts=1))
        except Unavailable as error:
            assert (str(error), error.code, error.status) == ("HTTP status 502: <html> Busy", "", 502), error
        else:
            raise AssertionError("it was taken")

    @both
    def test_an_answer_that_never_ends_is_given_up(plan: Callable[..., Any]) -> None:
        began = time.monotonic()
        release = threading.Event()

        def silent(_: bytes) -> Optional[bytes]:
            release.wait(30)
            return None

        try:
            plan(StandIn(silent).url, timeout_s=0.2, retries=Retries(attempts=1))
        except Unreachable as error:
            assert "127.0.0.1" in str(error), error
        else:
            raise AssertionError("an answer came")
        finally:
            release.set()
        assert time.monotonic() - began < 10

    @both
    def test_an_answer_beyond_the_limit_is_given_up(plan: Callable[..., Any]) -> None:
        limit, wire.ANSWER_BYTES_MAX = wire.ANSWER_BYTES_MAX, 1_000
        try:
            plan(StandIn(lambda _: answer(200, b" " * 5_000)).url, retries=Retries(attempts=1))
        except Unreachable as error:
            assert "1000 bytes" in str(error), error
        else:
            raise AssertionError("it was taken")
        finally:
            wire.ANSWER_BYTES_MAX = limit

    @both
    def test_an_answer_that_trickles_has_no_more_time(plan: Callable[..., Any]) -> None:
        # It comes without a pause for a hundred times the time of an attempt, and is none when it ends.
        def trickle(connection: socket.socket) -> None:
            request_of(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            end = time.monotonic() + 10
            while time.monotonic() < end:
                connection.sendall(b" " * 100)

        try:
            plan(peer(trickle), timeout_s=0.1, retries=Retries(attempts=1))
        except Unreachable as error:
            assert str(error).endswith(": timed out"), error
        else:
            raise AssertionError("an answer came")

    def test_a_request_that_is_read_slowly_has_no_more_time(self) -> None:
        gone = threading.Event()

        def sip(connection: socket.socket) -> None:
            with contextlib.suppress(ConnectionError):
                while connection.recv(1 << 16):
                    time.sleep(0.005)
            gone.set()

        for fabric in both_set("x" * (32 << 20)):
            with self.subTest(fabric), self.assertRaisesRegex(Unreachable, ": timed out$"):
                fabric(peer(sip), timeout_s=0.1, retries=Retries(attempts=1))
            # What is left of it is not sent any more.
            self.assertTrue(gone.wait(30))
            gone.clear()

    def test_a_connection_that_always_has_a_little_more_has_no_more_time(self) -> None:
        # A real peer pauses now and then, and a timeout between two bytes would end it. These two never pause.
        for takes, gives in ((1, b""), (1 << 16, b" ")):
            endless = mock.MagicMock(spec=socket.socket)
            endless.__enter__.return_value = endless
            endless.send.side_effect = lambda data, takes=takes: min(len(data), takes)
            endless.recv.return_value = gives
            with mock.patch("socket.socket", return_value=endless), self.assertRaisesRegex(Unreachable, ": timed out$"):
                Client("http://127.0.0.1:1", timeout_s=0.1, retries=Retries(attempts=1)).set_fabric("x" * (1 << 20))
            self.assertGreater(endless.send.call_count + endless.recv.call_count, 20)

    def test_a_request_that_is_too_large_to_be_read_is_refused_once(self) -> None:
        heard = []

        def refuse(connection: socket.socket) -> None:
            heard.append(connection.recv(1 << 10))
            connection.sendall(answer(413, b'{"code": "too_large", "message": "body: too large"}'))

        for fabric in both_set("x" * (32 << 20)):
            with self.subTest(fabric), self.assertRaisesRegex(TooLarge, "^body: too large$"):
                fabric(peer(refuse), retries=QUICK)
        self.assertEqual(len(heard), 2)

    def test_an_answer_of_which_a_broken_connection_may_have_cut_a_piece_is_none(self) -> None:
        def cut(connection: socket.socket) -> None:
            connection.recv(1 << 10)
            connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"fabric_version": 7}')

        for fabric in both_set("x" * (32 << 20)):
            with self.subTest(fabric), self.assertRaises(Unreachable):
                fabric(peer(cut), retries=Retries(attempts=1))

    def test_silent_addresses_share_the_time_of_one_attempt(self) -> None:
        began = time.monotonic()
        with silent_addresses(100), self.assertRaisesRegex(Unreachable, ": timed out$"):
            Client("http://x", timeout_s=0.2, retries=Retries(attempts=1)).plan()
        self.assertLess(time.monotonic() - began, 10)
        stand_in = StandIn(saying(answer(200, b'{"plan_version": 7}')))
        with silent_addresses(1, ("127.0.0.1", int(stand_in.url.rsplit(":", 1)[1]))):
            self.assertEqual(Client("http://x", timeout_s=2, retries=Retries(attempts=1)).plan().plan_version, 7)

    def test_both_clients_have_the_same_methods(self) -> None:
        def methods(client: type) -> dict[str, tuple[inspect.Signature, Optional[str]]]:
            of = {name: one for name, one in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
            return {name: (inspect.signature(one), one.__doc__) for name, one in of.items()}

        self.assertEqual(methods(Client), methods(AsyncClient))
        self.assertGreater(len(methods(Client)), 10)

    def test_waits_grow_and_are_bounded(self) -> None:
        waits = list(Retries(attempts=8, first_s=0.1, most_s=1.0).waits())
        self.assertEqual(len(waits), 7)
        for n, wait in enumerate(waits):
            most = min(1.0, 0.1 * 2**n)
            self.assertTrue(most / 2 <= wait <= most, (n, wait))

    def test_a_default_is_left_out_and_a_zero_that_was_said_is_not(self) -> None:
        self.assertEqual(m.CommitRequest(if_plan_version=0).to_json(), {"if_plan_version": 0})
        self.assertEqual(m.EvaluateRequest(jobs=[job("a")]).to_json(), {"jobs": [{"id": "a", "model": {"name": "vgg16"}}]})


if __name__ == "__main__":
    unittest.main()
