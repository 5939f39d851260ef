"""Which Debian archive a machine uses, read from its own apt sources."""

from pathlib import Path

import pytest

from wms2.errors import UserError
from wms2.local.apt import Apt, Source, debian_sources, open_archive, parse_list, parse_sources

DEB822 = """\
# what the installer wrote
Types: deb deb-src
URIs: http://mirror.example/debian
# an older address
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://other.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb
URIs:
 http://multi.example/debian
 http://backup.example/debian
Suites: trixie
Components: main
Trusted: yes

Types: deb
URIs: https://vendor.example/node
Suites: nodistro
Components: main

Types: deb
URIs: https://vendor.example/linux/debian
Suites: bookworm
Components: stable
"""

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/etc/key.gpg] http://mirror.example/debian/ bookworm main contrib # trailing words
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
deb cdrom:[Debian]/ bookworm main
deb http://apt.vendor.example/repos bookworm-pgdg main
deb [trusted=yes] http://plain.example/debian stable main
"""


def test_deb822_sources_give_the_debian_archive_and_neither_security_nor_vendors() -> None:
    found = list(parse_sources(DEB822))

    assert [source.uri for source in found] == [
        "http://mirror.example/debian",
        "http://multi.example/debian",
        "http://backup.example/debian",
    ]
    assert found[0].options == ("signed-by=/usr/share/keyrings/debian-archive-keyring.gpg",)
    assert found[1].options == ("trusted=yes",)


def test_one_line_sources_give_the_debian_archive_and_neither_security_nor_vendors() -> None:
    found = list(parse_list(ONE_LINE))

    assert found == [
        Source("http://mirror.example/debian/", ("signed-by=/etc/key.gpg",)),
        Source("http://plain.example/debian", ("trusted=yes",)),
    ]


def test_a_key_inside_the_sources_file_does_not_break_the_line_that_is_written() -> None:
    archive = "Types: deb\nURIs: http://m.example/debian\nSuites: sid\nComponents: main\n"
    text = archive + "Signed-By:\n -----BEGIN\n .\n abc\n"

    (source,) = parse_sources(text)

    assert "BEGIN" not in source.line("forky")
    assert source.line("forky").endswith("http://m.example/debian forky main\n")


def test_a_folder_named_debian_is_tried_before_an_archive_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://chrome.example/linux stable main\n")
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "old.list.disabled").write_text("deb http://off.example/debian sid main\n")

    uris = [source.uri for source in debian_sources(tmp_path)]

    assert uris[0] == "http://mirror.example/debian"
    assert uris[-1] == "http://chrome.example/linux"
    assert "http://off.example/debian" not in uris


def test_a_machine_without_a_debian_archive_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name no Debian archive: add one, or name a pool"):
        open_archive(tmp_path / "work", "forky", sources=tmp_path)


def test_an_archive_that_does_not_answer_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file://{tmp_path}/debian sid main\n")

    with pytest.raises(
        UserError, match="No Debian mirror gave the package lists of forky: check the network"
    ):
        open_archive(tmp_path / "work", "forky", sources=tmp_path)


def test_apt_works_in_its_own_folders_and_runs_none_of_the_machines_hooks(tmp_path: Path) -> None:
    Apt(tmp_path, Source("http://mirror.example/debian"), "forky")

    configuration = (tmp_path / "apt.conf").read_text()

    for name in (
        "Dir::State::lists",
        "Dir::State::status",
        "Dir::Cache",
        "Dir::Etc::sourcelist",
        "Dir::Etc::parts",
    ):
        assert f'{name} "{tmp_path}' in configuration
    assert "Invoke" not in configuration
