#!/usr/bin/env python3
"""Writes small pictures as people have them into a folder, and what Pillow reads of them into its expected.json.

    python3 tools/record/record_pictures.py tests/fixtures/images     (Pillow 13.0, numpy)

Of expected.json it replaces only the entries of the pictures that it writes.
"""

import io
import json
import struct
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

ORIENTATION = 0x0112


def pattern(height, width, channels=3):
    """Smooth enough for JPEG, and different in all four corners."""
    rows, columns, planes = np.ogrid[:height, :width, :channels]
    return ((rows * 9 + columns * 13 + planes * 61) % 256).astype(np.uint8)


def exif(orientation):
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags.tobytes()


def encoded(image, format, **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def profile(description):
    """Of an ICC profile, only what names it: the header, a table of one tag, and that tag."""
    tag = b"desc" + bytes(4) + struct.pack(">I", len(description) + 1) + description + bytes(1)
    return bytes(128) + struct.pack(">I4sII", 1, b"desc", 144, len(tag)) + tag


def ycck_of(cmyk_jpeg):
    """The same data with YCCK in its Adobe marker: byte 11 behind the name says how colours are coded."""
    at = cmyk_jpeg.index(b"Adobe") + 11
    assert cmyk_jpeg[at] == 0
    return cmyk_jpeg[:at] + b"\x02" + cmyk_jpeg[at + 1 :]


def pictures():
    rgb = Image.fromarray(pattern(8, 12))
    for orientation in range(1, 9):
        yield f"exif{orientation}.jpg", encoded(rgb, "JPEG", quality=90, exif=exif(orientation))
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'
    yield "xmp8.jpg", encoded(rgb, "JPEG", quality=90, xmp=xmp)
    yield "exif5.png", encoded(rgb, "PNG", exif=exif(5))
    yield "exif3.webp", encoded(rgb, "WEBP", lossless=True, exif=exif(3))
    inks = Image.fromarray(pattern(8, 12, 4), "CMYK")
    cmyk = encoded(inks, "JPEG", quality=90)
    yield "cmyk.jpg", cmyk
    yield "ycck.jpg", ycck_of(cmyk)
    yield "lossy.webp", encoded(rgb, "WEBP", quality=80)
    yield "lossless.webp", encoded(rgb, "WEBP", lossless=True)
    rgba = Image.fromarray(pattern(8, 12, 4), "RGBA")
    yield "alpha.webp", encoded(rgba, "WEBP", lossless=True, exact=True)
    frames = [Image.fromarray(np.roll(pattern(8, 12), shift, 1)) for shift in (3, 6, 9)]
    photo = Image.fromarray(pattern(64, 96))
    yield "photo6.jpg", encoded(photo, "JPEG", quality=70, exif=exif(6), icc_profile=profile(b"Display P3"))
    yield "animation.webp", encoded(frames[0], "WEBP", lossless=True, save_all=True, append_images=frames[1:])


def read(content):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    pixels = np.asarray(image).reshape(-1).tolist()
    return {"width": image.width, "height": image.height, "pixels": pixels}


def main(folder):
    expected_file = folder / "expected.json"
    expected = json.loads(expected_file.read_text())
    for name, content in pictures():
        (folder / name).write_bytes(content)
        if name != "photo6.jpg":  # larger than its pixels are worth
            expected[name] = read(content)
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in expected.items())
    expected_file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
