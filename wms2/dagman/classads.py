"""Values as ClassAd and submit-file text."""

from collections.abc import Mapping

AttributeValue = str | bool | int | float

_FORBIDDEN = set('"\\$\n\r\t')


def classad_literal(value: AttributeValue) -> str:
    """A ClassAd literal; text that could end the literal or be expanded is refused, not escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if _FORBIDDEN & set(value) or not value.isascii() or not value.isprintable():
        raise ValueError(f"text {value!r} cannot enter a submit file")
    return f'"{value}"'


def attribute_lines(attributes: Mapping[str, AttributeValue]) -> str:
    return "".join(f"+{name} = {classad_literal(value)}\n" for name, value in attributes.items())
