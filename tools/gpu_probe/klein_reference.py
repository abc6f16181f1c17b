#!/usr/bin/env python3
"""Measures PyTorch eager on a resident FLUX.2-klein-9B transformer of random weights, and PyTorch's attention paths.

The blocks follow the published reference implementation: separate q, k and v projections, bf16, rotary embedding in
f32, 512 text tokens, batch 1. A measuring program, not product code.
"""

import statistics

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

WIDTH, HEADS, HEAD_DIM, MLP = 4096, 32, 128, 12288
TEXT_TOKENS, TEXT_WIDTH, LATENT_CHANNELS = 512, 12288, 128
DOUBLE_BLOCKS, SINGLE_BLOCKS = 8, 24
EVERY = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
BACKENDS = {"PyTorch's choice": EVERY, "flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


def linear(width_in, width_out):
    return nn.Linear(width_in, width_out, bias=False)


def heads(x):
    return x.unflatten(-1, (HEADS, HEAD_DIM))


def rotate(x, cos, sin):
    """x: [batch, tokens, heads, head_dim]; cos, sin: [tokens, 1, head_dim]; neighbouring numbers are a pair."""
    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], -1).flatten(3)
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


def attend(q, k, v, rope):
    q, k = rotate(q, *rope), rotate(k, *rope)
    out = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)))
    return out.transpose(1, 2).flatten(2)


def modulate(norm, x, shift, scale):
    return norm(x) * (1 + scale) + shift


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_in, self.linear_out = linear(WIDTH, 2 * MLP), linear(MLP, WIDTH)

    def forward(self, x):
        gate, value = self.linear_in(x).chunk(2, -1)
        return self.linear_out(F.silu(gate) * value)


class TokenStream(nn.Module):
    """What a double block has once for the image and once for the text."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6, elementwise_affine=False)
        self.q, self.k, self.v, self.out = (linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_q, self.norm_k = nn.RMSNorm(HEAD_DIM, eps=1e-6), nn.RMSNorm(HEAD_DIM, eps=1e-6)
        self.ff = FeedForward()

    def qkv(self, x, modulation):
        x = modulate(self.norm, x, modulation[0], modulation[1])
        return self.norm_q(heads(self.q(x))), self.norm_k(heads(self.k(x))), heads(self.v(x))

    def finish(self, x, attended, modulation):
        x = x + modulation[2] * self.out(attended)
        return x + modulation[5] * self.ff(modulate(self.norm, x, modulation[3], modulation[4]))


class DoubleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = TokenStream(), TokenStream()

    def forward(self, image, text, modulation_image, modulation_text, rope):
        parts = zip(self.text.qkv(text, modulation_text), self.image.qkv(image, modulation_image))
        attended = attend(*(torch.cat(pair, 1) for pair in parts), rope)
        for_text, for_image = attended.split([text.shape[1], image.shape[1]], 1)
        return self.image.finish(image, for_image, modulation_image), self.text.finish(text, for_text, modulation_text)


class SingleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6, elementwise_affine=False)
        self.qkv_mlp, self.out = linear(WIDTH, 3 * WIDTH + 2 * MLP), linear(WIDTH + MLP, WIDTH)
        self.norm_q, self.norm_k = nn.RMSNorm(HEAD_DIM, eps=1e-6), nn.RMSNorm(HEAD_DIM, eps=1e-6)

    def forward(self, x, modulation, rope):
        qkv, gate, value = self.qkv_mlp(modulate(self.norm, x, *modulation[:2])).split([3 * WIDTH, MLP, MLP], -1)
        q, k, v = (heads(part) for part in qkv.chunk(3, -1))
        attended = attend(self.norm_q(q), self.norm_k(k), v, rope)
        return x + modulation[2] * self.out(torch.cat([attended, F.silu(gate) * value], -1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder, self.context_embedder = linear(LATENT_CHANNELS, WIDTH), linear(TEXT_WIDTH, WIDTH)
        self.time = nn.Sequential(linear(256, WIDTH), nn.SiLU(), linear(WIDTH, WIDTH))
        self.modulation_image, self.modulation_text = linear(WIDTH, 6 * WIDTH), linear(WIDTH, 6 * WIDTH)
        self.modulation_single, self.modulation_out = linear(WIDTH, 3 * WIDTH), linear(WIDTH, 2 * WIDTH)
        self.doubles = nn.ModuleList(DoubleBlock() for _ in range(DOUBLE_BLOCKS))
        self.singles = nn.ModuleList(SingleBlock() for _ in range(SINGLE_BLOCKS))
        self.norm_out = nn.LayerNorm(WIDTH, eps=1e-6, elementwise_affine=False)
        self.proj_out = linear(WIDTH, LATENT_CHANNELS)

    def forward(self, latents, context, sinusoid, rope):
        embedding = F.silu(self.time(sinusoid))[:, None]
        image, text = self.x_embedder(latents), self.context_embedder(context)
        modulation_image = self.modulation_image(embedding).chunk(6, -1)
        modulation_text = self.modulation_text(embedding).chunk(6, -1)
        modulation_single = self.modulation_single(embedding).chunk(3, -1)
        for block in self.doubles:
            image, text = block(image, text, modulation_image, modulation_text, rope)
        joint = torch.cat([text, image], 1)
        for block in self.singles:
            joint = block(joint, modulation_single, rope)
        scale, shift = self.modulation_out(embedding).chunk(2, -1)
        return self.proj_out(modulate(self.norm_out, joint[:, text.shape[1]:], shift, scale))


def median_ms(work, repeats, warm):
    times = []
    for repeat in range(warm + repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if repeat >= warm:
            times.append(begin.elapsed_time(end))
    return statistics.median(times), min(times), max(times)


def step_inputs(pixels):
    image_tokens = (pixels // 16) ** 2
    angles = torch.rand(TEXT_TOKENS + image_tokens, 1, HEAD_DIM // 2, dtype=torch.float32) * 6.28
    angles = angles.repeat_interleave(2, -1)
    return (torch.randn(1, image_tokens, LATENT_CHANNELS), torch.randn(1, TEXT_TOKENS, TEXT_WIDTH),
            torch.randn(1, 256), (angles.cos(), angles.sin()))


def measure_steps():
    model = Transformer()
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"\n{count} parameters, bf16. Step: median (least, most) of 10 behind 3.\n")
    print("| px | attention | step ms | peak GiB |\n|---|---|---|---|")
    for pixels in (512, 1024, 2048):
        inputs = step_inputs(pixels)
        for name, backend in BACKENDS.items():
            torch.cuda.reset_peak_memory_stats()
            with sdpa_kernel(backend):
                step = median_ms(lambda: model(*inputs), 10, 3)
            finite = bool(torch.isfinite(model(*inputs)).all())
            peak = torch.cuda.max_memory_allocated() / 2**30
            print(f"| {pixels} | {name} | {step[0]:.1f} ({step[1]:.1f}, {step[2]:.1f}) | {peak:.2f} |"
                  + ("" if finite else " not finite"), flush=True)


def measure_attention():
    print("\n| tokens | path | ms | TFLOP/s |\n|---|---|---|---|")
    for tokens in (1536, 4608, 16896):
        q, k, v = (torch.randn(1, tokens, HEADS, HEAD_DIM).transpose(1, 2) for _ in range(3))
        calls = 20 if tokens < 10000 else 5
        for name, backend in BACKENDS.items():
            with sdpa_kernel(backend):
                ms = median_ms(lambda: [F.scaled_dot_product_attention(q, k, v) for _ in range(calls)], 7, 2)[0] / calls
            print(f"| {tokens} | {name} | {ms:.4f} | {4 * tokens**2 * WIDTH / ms / 1e9:.0f} |", flush=True)


def main():
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    print(f"\nPyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    with torch.inference_mode():
        measure_attention()
        measure_steps()


if __name__ == "__main__":
    main()
