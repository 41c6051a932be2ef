"""The container ``zip`` for Mastaba."""

from mastaba import LazyClass, hookimpl


@hookimpl
def register_containers() -> list[LazyClass]:
    """Register the container; its class is imported on first use."""
    reference = "mastaba_zip.container:ZipContainer"
    return [LazyClass(reference, name="zip", suffixes=(".zip",))]
