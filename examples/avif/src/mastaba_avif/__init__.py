"""AVIF maps for Mastaba."""

from mastaba import LazyClass, hookimpl

settings_schema = {
    "quality": {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": 75,
        "description": "Quality of images for requests without the option quality.",
    },
    "speed": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10,
        "default": 8,
        "description": "Speed of the encoder: 0 makes the smallest files, 10 is the fastest.",
    },
}


@hookimpl
def register_encoders() -> list[LazyClass]:
    encoder = "mastaba_avif.encoder:AvifEncoder"
    return [LazyClass(encoder, media_type="image/avif", name="avif", extension="avif")]
