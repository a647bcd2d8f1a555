"""The engine versions that manifests are written for, their images and where they listen."""

VERSION: dict[str, str] = {"vllm": "0.32.0", "sglang": "0.5.23", "trtllm": "1.2.1"}
"""docs/reference/engines.md says how each flag was checked against these."""

IMAGE: dict[tuple[str, str], str] = {
    ("vllm", "nvidia"): f"vllm/vllm-openai:v{VERSION['vllm']}",
    ("vllm", "amd"): f"vllm/vllm-openai-rocm:v{VERSION['vllm']}",
    ("sglang", "nvidia"): f"lmsysorg/sglang:v{VERSION['sglang']}",
    ("sglang", "amd"): f"lmsysorg/sglang:v{VERSION['sglang']}-rocm720-mi30x",
    ("trtllm", "nvidia"): f"nvcr.io/nvidia/tensorrt-llm/release:{VERSION['trtllm']}",
}

COMMAND: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "serve"),
    "sglang": ("python3", "-m", "sglang.launch_server"),
    "trtllm": ("trtllm-serve", "serve"),
    "llama.cpp": ("llama-server",),
}

HTTP_PORT = 8000
"""Inside a container."""

RENDEZVOUS_PORT = 29500
"""Where the ranks of a replica meet, inside a container."""

STARTUP_S = 3600
"""Loading hundreds of gigabytes of weights and compiling kernels takes minutes; past this it has failed."""
