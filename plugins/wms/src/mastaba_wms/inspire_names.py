"""Layer names of INSPIRE (Regulation (EU) No 1089/2010, annexes II to IV)."""

from __future__ import annotations

import re
from typing import Final

# Codes of the themes in the annexes of Directive 2007/2/EC.
_THEMES: Final = (
    "AD AU CP GG GN HY PS RS TN "
    "EL GE LC OI "
    "AC AF AM BR BU EF ER HB HH LU MF MR NZ OF PD PF SD SO SR SU US"
).replace(" ", "|")
# A name consists of a theme and one or more parts in upper camel case. There is no closed list:
# many names end in a value from an extensible code list.
_HARMONISED: Final = re.compile(rf"(?:{_THEMES})(?:\.[A-Z][A-Za-z0-9_]*)+")


def is_harmonised_name(identifier: str) -> bool:
    """Return whether an identifier is a layer name of the regulation (annexes II to IV)."""
    return _HARMONISED.fullmatch(identifier) is not None
