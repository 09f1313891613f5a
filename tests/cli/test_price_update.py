"""`dragoman prices update` as a user runs it."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
import trustme

from dragoman.cli import main
from dragoman.config.config_file import write_atomically
from dragoman.prices.table import own_table
from tests.cli.machine import clean
from tests.cli.screens import piped


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def published(price: object = "1.2", **model: object) -> bytes:
    """A collection with one model."""
    entry = {"id": "gpt-5.1", "match": {"equals": "gpt-5.1"}, "prices": {"input_mtok": price}, **model}
    return msgspec.json.encode([{"id": "openai", "name": "OpenAI", "models": [entry]}])


def put(content: bytes) -> str:
    Path("new.json").write_bytes(content)
    return "new.json"


def kept() -> Path:
    return Path.home() / ".local/state/dragoman/prices.json"


def shown(capfd: pytest.CaptureFixture[str]) -> str:
    main(["prices", "openai/gpt-5.1"])
    return capfd.readouterr().out


def test_a_new_book_is_shown_and_used(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "update", "--from", put(published())]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == f"from {own_table().title}"
    assert lines[1].startswith("to   genai-prices published of 20")
    assert lines[2] == "  openai/gpt-5.1 input 0.625–2.5 → 1.2"
    assert lines[-2].startswith("  and ")
    assert lines[-1] == f"kept in {kept()}"
    assert len(lines) < 50
    assert kept().stat().st_mode & 0o777 == 0o600
    told = shown(capfd).splitlines()
    assert told[1].split()[:3] == ["openai/gpt-5.1", "1.2", "?"]
    assert main(["prices", "update", "--from", "new.json"]) == 0
    assert "no price changes" in capfd.readouterr().out


def test_pitfall_622_a_dry_run_says_what_would_change_and_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    new = put(published("0.01"))
    assert main(["prices", "update", "--from", new, "--dry-run"]) == 0
    captured = capfd.readouterr()
    assert "! openai/gpt-5.1 input 0.625–2.5 → 0.01" in captured.out
    assert captured.err == ""
    assert not kept().exists()


def test_pitfall_621_622_without_a_terminal_nothing_is_asked_and_the_option_is_named(tmp_path: Path) -> None:
    new = put(published("0.01"))
    status, out, err = piped(["prices", "update", "--from", new], tmp_path)
    assert status == 1
    assert "! openai/gpt-5.1 input" in out
    assert err == "dragoman: the price book was not changed (--yes agrees to large changes)\n"


def test_pitfall_456_a_steep_change_needs_somebody_who_agrees(capfd: pytest.CaptureFixture[str]) -> None:
    new = put(published("0.01"))
    assert main(["prices", "update", "--from", new]) == 1
    captured = capfd.readouterr()
    assert "! openai/gpt-5.1 input 0.625–2.5 → 0.01" in captured.out
    assert "--yes" in captured.err
    assert not kept().exists()
    assert main(["prices", "update", "--from", new, "--yes"]) == 0
    assert kept().exists()
    capfd.readouterr()
    # And from there up again.
    assert main(["prices", "update", "--from", put(published("1.2"))]) == 1


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("yes\n", 0), ("\n", 1), ("n\n", 1), ("", 1)])
def test_on_a_terminal_the_user_is_asked(
    answer: str, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, answer.encode())
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as typed:
        monkeypatch.setattr("sys.stdin", typed)
        monkeypatch.setattr("os.isatty", lambda number: number in (0, 2))
        assert main(["prices", "update", "--from", put(published("0.01"))]) == status
    assert "Let one price fall below a tenth or rise above ten times" in capfd.readouterr().err
    assert kept().exists() is (status == 0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (published(-1), "is no collection of prices"),
        (published("cheap"), "is no collection of prices"),
        (published(match={"regex": "(a+)+$"}), "a pattern that is not taken from others"),
        (published()[:-1], "is no collection of prices"),
        (b"", "is no collection of prices"),
        (b"import os", "is no collection of prices"),
        (b"{}", "is no book of prices"),
        (b" " * 8_000_001, "is larger than 8000000 bytes"),
        (
            msgspec.json.encode(msgspec.structs.replace(own_table(), taken="2020-01-01")),
            "is of 2020-01-01, older than the",
        ),
    ],
)
def test_pitfall_456_the_old_book_stays_until_the_new_one_is_whole(
    content: bytes, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prices", "update", "--from", put(published())]) == 0
    before = kept().read_bytes()
    capfd.readouterr()
    assert main(["prices", "update", "--yes", "--from", put(content)]) == 1
    err = capfd.readouterr().err
    assert problem in err and "new.json" in err
    assert kept().read_bytes() == before
    assert list(kept().parent.iterdir()) == [kept()]


@pytest.mark.parametrize("price", ["1e999990", "1e999999999", "-1", "1e20", '"sNaN"', '"Infinity"'])
@pytest.mark.parametrize("step", [False, True])
def test_item_22_a8_a_price_of_any_size_is_refused_with_a_message(
    price: str, step: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    # The first took minutes to be written out in digits, the second was an error of arithmetic.
    said = f'{{"base": 1, "tiers": [{{"start": 5, "price": {price}}}]}}' if step else price
    model = f'{{"id": "m", "match": {{"equals": "m"}}, "prices": {{"input_mtok": {said}}}}}'
    assert main(["prices", "update", "--from", put(f'[{{"id": "p", "models": [{model}]}}]'.encode())]) == 1
    err = capfd.readouterr().err
    assert "is no collection of prices: input_mtok is no price, from 0 to 1000 dollars for one" in err
    assert not kept().exists()


@pytest.mark.parametrize("number", ["1e999990", "1e999999999", "9" * 5000, "1e400"])
@pytest.mark.parametrize("member", ["start", "window", "amount"])
def test_item_22_a8_so_is_any_other_number(number: str, member: str, capfd: pytest.CaptureFixture[str]) -> None:
    if member == "amount":
        row = f'["m", [], [null, [[null, [[{number}]]]]]]'
        book = f'{{"format": 1, "source": "s", "version": "v", "taken": "2999-01-01", "providers": {{"p": [[{row}]]}}}}'
    else:
        prices = f'{{"input_mtok": {{"base": 1, "tiers": [{{"start": {number}, "price": 1}}]}}}}'
        more = f', "context_window": {number}' if member == "window" else f', "prices": {prices}'
        book = f'[{{"id": "p", "models": [{{"id": "m", "match": {{"equals": "m"}}{more}}}]}}]'
    assert main(["prices", "update", "--from", put(book.encode())]) == 1
    assert "new.json is no" in capfd.readouterr().err


def test_a_compiled_table_is_taken_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "update", "--from", put(msgspec.json.encode(own_table()))]) == 0
    assert "no price changes" in capfd.readouterr().out


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "state" / "prices.json"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert [entry.read_bytes() for entry in path.parent.iterdir()] == [b"old"]


@pytest.mark.parametrize("source", ["http://127.0.0.1:1/prices.json", "HTTP://127.0.0.1:1/", "ftp://127.0.0.1/x"])
def test_nothing_is_read_in_clear_text(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "update", "--from", source]) == 2
    assert "is not an https:// URL" in capfd.readouterr().err


def test_a_user_without_a_home_has_no_place_for_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOME")
    assert main(["prices", "update", "--from", put(published())]) == 1
    assert "cannot store a price book without a home directory" in capfd.readouterr().err


def test_a_file_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "update", "--from", "nowhere.json"]) == 1
    assert "nowhere.json: No such file or directory" in capfd.readouterr().err


@contextmanager
def served(status: int, body: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An address with https that this machine trusts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("location", "https://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the test looks at what it is told."""

    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("NO_PROXY", "*")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/prices.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with served(200, published(), monkeypatch, tmp_path) as url:
        assert main(["prices", "update", "--from", url]) == 0
    assert kept().exists()
    assert "kept in" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, b"no", "answered 404"),
        (302, b"", "answered 302"),
        (200, b" " * 8_000_001, "exceeds the limit"),
        (200, b"<html>", "is no collection of prices"),
    ],
)
def test_an_address_that_has_no_book(
    status: int,
    body: bytes,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with served(status, body, monkeypatch, tmp_path) as url:
        assert main(["prices", "update", "--yes", "--from", url]) == 1
    assert problem in capfd.readouterr().err
    assert not kept().exists()


def test_an_address_that_cannot_be_reached_is_named_with_another_way(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:
        # Taken, and nobody listens there.
        bound.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{bound.getsockname()[1]}/prices.json"
        assert main(["prices", "update", "--from", url]) == 1
    err = capfd.readouterr().err
    assert err.startswith(f"dragoman: cannot reach {url}: ")
    assert "name the file with --from" in err
