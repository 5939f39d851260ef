"""The files that the pilot reads."""

from collections.abc import Collection, Iterator, Sequence

from wms2.core.splitting.selection import Selection
from wms2.core.splitting.spanning import find_spanning
from wms2.models.plan import InputFile
from wms2.models.request import Request


def pilot_files(
    files: Sequence[InputFile], request: Request, most: int, sites: Collection[str]
) -> list[InputFile]:
    """The first files at one place where jobs may run, at most so many; the first of all when no site has any.

    Where lumi sections stay whole, files that share some are taken together, or a later round would read the
    rest of a lumi section; the first such family is taken however large it is.
    """
    chosen: list[InputFile] = []
    for family in _families(files, request):
        if not request.trust_sitelists and not set(sites).intersection(*(file.locations for file in family)):
            continue
        if chosen and (len(chosen) + len(family) > most or any(_elsewhere(file, chosen) for file in family)):
            continue
        chosen.extend(family)
        if len(chosen) >= most:
            break
    return chosen or list(files[:most])


def _elsewhere(file: InputFile, chosen: Sequence[InputFile]) -> bool:
    return file.locations != chosen[0].locations


def _families(files: Sequence[InputFile], request: Request) -> Iterator[list[InputFile]]:
    """All files in their order; those that share lumi sections come together, in the place of the first."""
    if not request.splitting_algo.keeps_lumis_whole:
        yield from ([file] for file in files)
        return
    selection = Selection(request)
    spanning = find_spanning([selection.part(file.lumis) for file in files])
    family_of = {number: family for family in spanning.families for number in family}
    for number in range(len(files)):
        family = family_of.get(number, [number])
        if family[0] == number:
            yield [files[member] for member in family]
