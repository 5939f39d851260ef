"""Files that lie at the same places can be read by the same jobs."""

from collections import defaultdict

from wms2.models.plan import InputFile, Snapshot


def files_by_location(snapshot: Snapshot) -> list[tuple[tuple[str, ...], list[InputFile]]]:
    """Files grouped by the sites that have them and may run the round.

    Groups and files come in a fixed order whatever the order of the inputs, so the same snapshot gives the
    same plan. Files that no allowed site has are left out; `unplaced` names them.
    """
    groups: dict[tuple[str, ...], list[InputFile]] = defaultdict(list)
    for file in snapshot.inputs:
        if sites := _possible_sites(file, snapshot):
            groups[sites].append(file)
    return [(sites, sorted(files, key=lambda file: file.lfn)) for sites, files in sorted(groups.items())]


def unplaced(snapshot: Snapshot) -> list[InputFile]:
    return [file for file in snapshot.inputs if not _possible_sites(file, snapshot)]


def _possible_sites(file: InputFile, snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(sorted(set(file.locations) & set(snapshot.sites)))
