"""Float64, one device, and shapes checked at every call of the library."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
install_import_hook("bipareto", "beartype.beartype")
