"""Variables by name, and those that lead clients astray."""

from __future__ import annotations

from pathlib import Path

from dragoman.cli.doctor.environment import environment
from dragoman.cli.doctor.report import AUTH_CONFLICT, BLOCKED

SECRET = "sk-0123456789abcdef-secret"
URL = "http://127.0.0.1:1/secret-path"


def test_names_are_told_and_no_value() -> None:
    environ = {
        "OPENAI_API_KEY": SECRET,
        "DRAGOMAN_KEY": SECRET,
        "https_proxy": f"http://me:{SECRET}@proxy.example.org",
        "SSL_CERT_FILE": "/x",
    }
    section = environment(environ)
    facts = dict(section.facts)
    assert facts["keys of providers"] == "OPENAI_API_KEY (openai)"
    assert (facts["of Dragoman"], facts["proxies"]) == ("DRAGOMAN_KEY", "https_proxy")
    assert (facts["certificates"], facts["addresses for clients"]) == ("SSL_CERT_FILE", "none is set")
    assert section.findings == ()
    assert SECRET not in str(section) and "example.org" not in str(section)


def test_every_variable_with_certificates_is_named() -> None:
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    assert dict(environment(dict.fromkeys(names, "/x")).facts)["certificates"] == ", ".join(names)


def test_pitfall_623_an_address_that_points_at_nothing_is_found_with_the_file_that_sets_it(tmp_path: Path) -> None:
    (tmp_path / ".zshrc").write_text(f"# ANTHROPIC_BASE_URL\nexport X=1\nexport ANTHROPIC_BASE_URL={URL}\n")
    environ = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": URL, "OPENAI_BASE_URL": URL}
    first, second = environment(environ).findings
    assert first.message == "ANTHROPIC_BASE_URL is set, and nothing listens there"
    assert first.advice == f"unset ANTHROPIC_BASE_URL, and take it out of {tmp_path}/.zshrc:3"
    assert (first.wrong, first.heading) == (True, BLOCKED)
    assert second.advice == "unset OPENAI_BASE_URL, and look where it is set"
    assert URL not in str((first, second))


def test_an_address_where_somebody_answers_is_worth_knowing() -> None:
    (finding,) = environment({"OPENAI_BASE_URL": URL}, lambda url: "").findings
    assert not finding.wrong
    assert finding.message.startswith("OPENAI_BASE_URL is set: every client started here goes to that address")


def test_pitfall_632_a_proxy_that_catches_this_machine_is_named() -> None:
    (finding,) = environment({"HTTP_PROXY": "http://proxy.example.org"}).findings
    assert (finding.wrong, finding.message.split()[0]) == (False, "HTTP_PROXY")
    assert "NO_PROXY" in finding.advice
    assert environment({"HTTP_PROXY": "http://proxy.example.org", "no_proxy": "x, 127.0.0.1"}).findings == ()


def test_two_credentials_of_claude_code_are_a_conflict() -> None:
    (finding,) = environment({"ANTHROPIC_AUTH_TOKEN": SECRET, "ANTHROPIC_API_KEY": SECRET}).findings
    assert (finding.heading, SECRET in str(finding)) == (AUTH_CONFLICT, False)
