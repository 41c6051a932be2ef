"""``python -m scripts.public_api``: print the public interface, for ``surface.txt``."""

from scripts.public_api.names import CORE, LIBS
from scripts.public_api.surface import surface

print(surface((*CORE, *LIBS)), end="")
