#!/usr/bin/env python3
"""Prints the tables of tests/pipelines/pictures/lanczos_test.cpp and reference_image_test.cpp: what Pillow resizes the
tests' pattern to, and what the image processor of FLUX.2 makes of it.

    python3 tools/record/record_resizes.py     (Pillow 13.0, numpy, diffusers 0.42.1)
"""

import numpy as np
from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor
from PIL import Image

RESIZES = [
    (40, 60, 17, 23), (33, 21, 50, 64), (37, 53, 37, 20), (64, 48, 13, 48), (5, 300, 4, 11),
    # Wider and lower, higher and narrower, and both sides of the rule that puts the columns first.
    (30, 40, 25, 51), (40, 30, 50, 25), (60, 20, 20, 5), (60, 20, 30, 5), (60, 20, 30, 6),
    # Extreme ratios and odd sizes.
    (1, 500, 3, 7), (500, 1, 7, 3), (301, 3, 1, 1), (3, 5, 211, 307),
]
REFERENCES = [
    (100, 135), (64, 512), (1024, 1024), (1201, 1503), (700, 2100), (1500, 3000), (3001, 1000), (2400, 300),
]


def pattern(height, width):
    r, c, k = np.ogrid[:height, :width, :3]
    return ((r * r * 3 + c * c * 7 + r * c * 11 + k * 97) // 16 % 256).astype(np.uint8)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    for height, width, new_height, new_width in RESIZES:
        resized = Image.fromarray(pattern(height, width)).resize((new_width, new_height), Image.Resampling.LANCZOS)
        print(f"{{{height}, {width}, {new_height}, {new_width}, 0x{fnv1a(resized.tobytes()):016X}}},")
    processor = Flux2ImageProcessor(vae_scale_factor=16)
    for height, width in REFERENCES:
        image = processor.check_image_input(Image.fromarray(pattern(height, width)))
        if width * height > 1024 * 1024:
            image = processor._resize_to_target_area(image, 1024 * 1024)
        size = image.height // 16 * 16, image.width // 16 * 16
        values = processor.preprocess(image, height=size[0], width=size[1], resize_mode="crop")[0].permute(1, 2, 0)
        first, last = values.flatten()[[0, -1]].tolist()
        data = ((values + 1) / 2 * 255).round().numpy().astype(np.uint8).tobytes()
        print(f"{{{height}, {width}, {size[0]}, {size[1]}, 0x{fnv1a(data):016X}, {first}F, {last}F}},")


if __name__ == "__main__":
    main()
