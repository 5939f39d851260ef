"""`site.inc`: where a group may land, which sites it avoids, and the site it has elected."""

from __future__ import annotations

from post_script.files import write_text
from post_script.names import ROUND_INCLUDE, SITE_INCLUDE, is_site_name


def read_include(path: str) -> dict[str, str]:
    """The macros of an include file; none when it is missing."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = [line.split("=", 1) for line in file if "=" in line]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, value in pairs}


def site_list(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def landing_sites() -> list[str]:
    return site_list(read_include(SITE_INCLUDE).get("landing_sites", ""))


def elected_site() -> str:
    return read_include(SITE_INCLUDE).get("elected_site", "")


def elect(site: str) -> None:
    """Pin the group to a site; what it may land at and avoids stays as it was."""
    if not is_site_name(site):
        raise ValueError(f"{site!r} is no site name")
    macros = read_include(SITE_INCLUDE)
    _write(site_list(macros.get("landing_sites", "")), site_list(macros.get("avoid_sites", "")), site)


def open_election(possible: list[str], bad: list[str]) -> list[str]:
    """Start an election: nowhere elected, the bad sites avoided. Returns where the group may land.

    When all possible sites have been bad, the older ones get another chance, and the last one too when it is
    the only one: sites recover, and those that do not are banned by the round, not here.
    """
    allowed = set(site_list(read_include(ROUND_INCLUDE).get("allowed_sites", "")))
    candidates = [site for site in possible if site in allowed]
    avoided = site_list(read_include(SITE_INCLUDE).get("avoid_sites", ""))
    avoided = [site for site in avoided if site not in bad] + bad
    landing = [site for site in candidates if site not in avoided]
    if not landing:
        avoided = [site for site in bad if site in candidates][-1:] if len(candidates) > 1 else []
        landing = [site for site in candidates if site not in avoided]
    _write(landing, avoided, "")
    return landing


def _write(landing: list[str], avoided: list[str], elected: str) -> None:
    write_text(
        SITE_INCLUDE,
        f"landing_sites = {','.join(landing)}\navoid_sites = {','.join(avoided)}\nelected_site = {elected}\n",
    )
