"""The bytes of answers, what errors they are, and what is sent again: without a connection."""

import json
import random
import unittest

from antiphase import (
    AntiphaseError,
    Conflict,
    Exhausted,
    Forbidden,
    InvalidRequest,
    Refused,
    Retries,
    TimedOut,
    TooLarge,
    Unavailable,
    Unreachable,
    calls,
    wire,
)
from antiphase import messages as m
from antiphase.attempts import Attempts, Received
from antiphase.errors import refused

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunked(body: bytes, rng: random.Random) -> bytes:
    """The body in chunks of any length, as RFC 9112 has them: either case, zeros in front, extensions."""
    out = b""
    while body:
        size = rng.randint(1, len(body))
        digits = format(size, rng.choice(["x", "X", "04x"])).encode()
        out += digits + rng.choice([b"", b";a=b", b" ; a"]) + b"\r\n" + body[:size] + b"\r\n"
        body = body[size:]
    return CHUNKED + out + b"0\r\n\r\n"


class Answers(unittest.TestCase):
    def test_chunks_are_joined_and_every_cut_is_seen(self) -> None:
        rng = random.Random(1)
        for _ in range(200):
            body = bytes(rng.choices(b"0a;\r\n-", k=rng.randint(0, 40)))
            data = chunked(body, rng)
            self.assertEqual(wire.answer(data), wire.Answer(200, body))
            # The last four bytes follow the length 0: the body is whole without them.
            for end in range(len(data) - 4):
                with self.assertRaises(Unreachable):
                    wire.answer(data[:end])

    def test_a_length_is_digits_and_nothing_else(self) -> None:
        for length in (b"-e", b"+3", b"0x3", b"0_3", b"", b"g", b"3.0", b"\xb3", b"3" * 17):
            with self.subTest(length), self.assertRaisesRegex(Unreachable, "cut in a chunk"):
                wire.answer(CHUNKED + b"3\r\nabc\r\n" + length + b"\r\nabc\r\n0\r\n\r\n")

    def test_a_chunk_ends_where_its_length_says(self) -> None:
        for chunk in (b"3\r\nabcde", b"2\r\nabc\r\n", b"4\r\nabc\r\n"):
            with self.subTest(chunk), self.assertRaises(Unreachable):
                wire.answer(CHUNKED + chunk + b"0\r\n\r\n")

    def test_whatever_comes_is_an_answer_or_none(self) -> None:
        rng = random.Random(2)
        whole = [HEAD + b"content-length: 3\r\n\r\nabc", chunked(b"abcdefgh" * 4, rng), HEAD + b"\r\nabc"]
        for _ in range(5_000):
            data = bytearray(rng.choice(whole))
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.choice(b"-+0e9 \r\n:;\xff")
            try:
                answer = wire.answer(bytes(data))
            except Unreachable as error:
                self.assertNotIn("\n", str(error))
            else:
                self.assertLessEqual(len(answer.body), len(data))

    def test_what_came_before_a_connection_broke_has_to_say_how_long_it_is(self) -> None:
        whole = [HEAD + b"content-length: 3\r\n\r\nabc", CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"]
        for data in whole:
            self.assertEqual(wire.answer(data, broke=True), wire.Answer(200, b"abc"))
        for data in [HEAD + b"\r\nabc", *(one[:-5] for one in whole), b""]:
            with self.assertRaises(Unreachable):
                wire.answer(data, broke=True)

    def test_a_status_has_three_digits(self) -> None:
        # `int` refuses more digits than 4,300 by an error that is none of ours.
        for status in (b"20", b"2000", b"2" * 5_000, b"x"):
            with self.assertRaisesRegex(Unreachable, "no answer of HTTP"):
                wire.answer(b"HTTP/1.1 " + status + b" OK\r\n\r\n")


class Sendings(unittest.TestCase):
    def attempts(self, count: int) -> Attempts[m.Plan]:
        return Attempts(calls.plan(), wire.Place.of("http://host:1", None, None, None), Retries(attempts=count, first_s=1.0))

    def test_what_may_pass_is_sent_again_and_the_rest_is_raised_as_it_is(self) -> None:
        passing = [OSError("x"), TimeoutError(), Unreachable("x"), refused(503, b""), refused(429, b""), refused(504, b"")]
        for error in passing:
            waits = self.attempts(3)
            self.assertTrue(0.5 <= waits.wait_s(error) <= 1.0 <= waits.wait_s(error) <= 2.0)
            with self.assertRaises(AntiphaseError):
                waits.wait_s(error)
        for error in (refused(409, b'{"code": "conflict", "message": "m"}'), refused(413, b""), refused(418, b"")):
            with self.assertRaises(Refused) as raised:
                self.attempts(3).wait_s(error)
            self.assertIs(raised.exception, error)

    def test_what_the_system_says_is_one_line_with_the_place(self) -> None:
        cases = [(OSError("a\nb"), "a b"), (TimeoutError(), "timed out"), (ConnectionResetError(), "ConnectionResetError")]
        for error, text in cases:
            with self.assertRaises(Unreachable) as raised:
                self.attempts(1).wait_s(error)
            self.assertEqual((str(raised.exception), raised.exception.__cause__), (f"host:1: {text}", error))

    def test_a_connection_that_broke_before_anything_came_says_why(self) -> None:
        received = Received()
        received.broke(BrokenPipeError("pipe"))
        with self.assertRaisesRegex(BrokenPipeError, "pipe"):
            self.attempts(1).result(received)


class Refusals(unittest.TestCase):
    def test_a_known_code_counts_and_else_the_status(self) -> None:
        def said(code: str) -> bytes:
            return json.dumps({"code": code, "message": "no"}).encode()

        cases: list[tuple[int, bytes, type[Refused]]] = [
            (409, said("conflict"), Conflict),
            (503, said("conflict"), Conflict),
            (503, said("new_word"), Unavailable),
            (504, b"", TimedOut),
            (502, b"<html>", Unavailable),
            (429, b'{"error": "slow down"}', Exhausted),
            (413, b"<html>", TooLarge),
            (403, b"[]", Forbidden),
            (409, b"taken", Refused),
            (400, said("invalid"), InvalidRequest),
        ]
        for status, body, kind in cases:
            self.assertIs(type(refused(status, body)), kind, (status, body))

    def test_what_is_no_error_of_ours_is_one_line(self) -> None:
        bodies = [b'{"code": ["x"], "message": "m"}', b'{"code": "invalid", "message": {}}', b'{"code": "invalid"}', b"7", b"\xff\n"]
        bodies += [b"[" * 100_000, b'{"code": "invalid", "message": "m", "hint": 1}']
        for body in bodies:
            error = refused(400, body)
            self.assertEqual((type(error), error.code), (Refused, ""))
            self.assertTrue(str(error).startswith("HTTP status 400: ") and "\n" not in str(error), error)


if __name__ == "__main__":
    unittest.main()
