#!/usr/bin/env python3
"""Records the scheduler's options into tests/fixtures/flux2/schedules.json and, of pipelines with such schedulers, the
latents of every step into schedules.safetensors.

    python3 tools/record/record_schedules.py models/tiny-shapes tests/fixtures/flux2
        (diffusers 0.42.1, torch, numpy, scipy; CPU, float32)
"""

import functools
import json
import sys
from pathlib import Path

import numpy as np
import torch
from diffusers import Flux2KleinPipeline, FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu
from safetensors.torch import save_file

GIVEN = [1.0, 0.8, 0.55, 0.3, 0.1]
CONFIGS = [
    {"use_dynamic_shifting": False},
    {"time_shift_type": "linear"},
    {"shift_terminal": 0.1},
    {"use_karras_sigmas": True},
    {"use_exponential_sigmas": True},
    {"use_beta_sigmas": True},
    {"use_beta_sigmas": True, "use_dynamic_shifting": False, "shift": 1.7},
    {"invert_sigmas": True},
    {"num_train_timesteps": 500},
    {"time_shift_type": "linear", "shift_terminal": 0.02, "use_karras_sigmas": True, "invert_sigmas": True},
]
RUNS = {
    "stochastic": {"stochastic_sampling": True},
    "linear": {"time_shift_type": "linear", "num_train_timesteps": 500},
    "given": {"use_karras_sigmas": True},
}


def schedules(base):
    for patch in CONFIGS:
        for tokens, steps, given in ((64, 20, None), (4096, 4, None), (256, 5, GIVEN)):
            scheduler = FlowMatchEulerDiscreteScheduler.from_config({**base, **patch})
            mu = compute_empirical_mu(tokens, steps)
            scheduler.set_timesteps(sigmas=given or np.linspace(1.0, 1 / steps, steps), mu=mu)
            yield {"config": patch, "image_tokens": tokens, "steps": steps, "given": given or [], "mu": mu,
                   "sigmas": scheduler.sigmas.tolist(), "timesteps": scheduler.timesteps.tolist()}


def latents_of(pipe, patch, given):
    pipe.scheduler = FlowMatchEulerDiscreteScheduler.from_config({**pipe.scheduler.config, **patch})
    latents = []

    def keep(pipeline, step, timestep, tensors):
        latents.append(tensors["latents"][0].clone())
        return {}

    generator = torch.Generator("cpu").manual_seed(21)
    # The pipeline does not hand its generator on to the scheduler, whose noise nobody could repeat then.
    pipe.scheduler.step = functools.partial(pipe.scheduler.step, generator=generator)
    pipe(prompt="a blue square", height=64, width=48, num_inference_steps=5, sigmas=given, guidance_scale=1.0,
         generator=generator, output_type="latent", callback_on_step_end=keep)
    return torch.stack(latents).contiguous()


def main(model, out):
    pipe = Flux2KleinPipeline.from_pretrained(model, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    base = dict(pipe.scheduler.config)
    (out / "schedules.json").write_text(json.dumps(list(schedules(base))) + "\n")
    tensors = {}
    for name, patch in RUNS.items():
        pipe.scheduler = FlowMatchEulerDiscreteScheduler.from_config(base)
        tensors[f"{name}.latents"] = latents_of(pipe, patch, GIVEN if name == "given" else None)
    save_file(tensors, out / "schedules.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
