"""Container: known by the marks that it leaves."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import container


def test_pitfall_628_a_container_is_known_by_the_marks_that_it_leaves(tmp_path: Path) -> None:
    assert not container.found_in(tmp_path)
    groups = tmp_path / "proc/self/cgroup"
    groups.parent.mkdir(parents=True)
    groups.write_text("0::/user.slice/user-1000.slice\n")
    assert not container.found_in(tmp_path)
    groups.write_text("12:pids:/docker/0123456789abcdef\n")
    assert container.found_in(tmp_path)
    groups.unlink()
    (tmp_path / ".dockerenv").touch()
    assert container.found_in(tmp_path)
