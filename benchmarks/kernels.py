"""Where the time of the CUDA kernels goes: ``python benchmarks/kernels.py``, on a GPU.

Milliseconds for 100,000 samples of each kernel of LeNet's and ResNet-110's certification, and microseconds of a forward
and backward of both in training, as CUDA graphs; each beside the generic path, which any network gets. Weights and
images are random.
"""

from copy import deepcopy

import torch
from certify import calibrated

from smoothcert.kernels.prepare import prepare
from smoothcert.kernels.trainable import products, trainable
from smoothcert.models import build_model
from smoothcert.noise.exact import Place
from smoothcert.noise.fused import FusedNoise
from smoothcert.statistics.laws import law_named

DEVICE = torch.device("cuda")


def milliseconds(work, repeats=20):
    work()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


def profile(work):
    """Time of each kernel by its name, in milliseconds."""
    work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    return {event.key: event.self_device_time_total / 1000 for event in found.key_averages()}


def noise(shape, batch, law, sigma=0.5):
    source = FusedNoise(law_named(law), sigma, 0, DEVICE)
    images = torch.randint(0, 256, (1, *shape), dtype=torch.uint8, device=DEVICE)
    out, sample = (
        torch.empty(batch, *shape, dtype=torch.float16, device=DEVICE),
        torch.arange(batch, device=DEVICE).int(),
    )
    words = source.words([(Place(0, 1), batch)])
    return milliseconds(lambda: source.fill(out, images, words, torch.zeros_like(sample), sample))


def certification(name, model, shape):
    """What our kernels take, in all and each, beside what any network gets in the same precision and batches."""
    ours, generic = (
        prepare(model, shape, DEVICE, "float16", kernels) for kernels in ("auto", "off")
    )
    batch = ours.batch_size
    times = []
    for network in (ours, generic):
        x = network.inputs(batch)
        x.copy_(torch.rand(x.shape, device=DEVICE))
        times.append(milliseconds(lambda network=network, x=x: network.forward(x)) * 1e5 / batch)
    print(f"{name}: {times[0]:.2f} ms for 100,000 in batches of {batch}, generic {times[1]:.2f} ms")
    x = ours.inputs(batch)
    for kernel, time in sorted(profile(lambda: ours.forward(x)).items(), key=lambda item: -item[1]):
        if time * 1e5 / batch > 0.05:
            print(f"    {time * 1e5 / batch:8.2f} ms  {kernel}")


def training(name, model, shape, batch):
    """Microseconds of an attack's pass and of a training pass, PyTorch's and ours, replayed as graphs."""
    images = torch.rand(batch, *shape, device=DEVICE)
    for what, frozen in (
        ("forward and input gradient", True),
        ("forward and weight gradients", False),
    ):
        times = []
        for kernels in ("off", "auto"):
            network = trainable(deepcopy(model), shape, DEVICE, "tf32", kernels).network
            network.train(not frozen).requires_grad_(not frozen)
            x = images.clone().requires_grad_(frozen)
            wanted = [x] if frozen else list(network.parameters())

            def step(network=network, x=x, wanted=wanted):
                torch.autograd.grad(network(x).logsumexp(1).sum(), wanted)

            with products(DEVICE, "tf32", kernels):
                for _ in range(3):
                    step()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(10):
                        step()
                times.append(100 * milliseconds(graph.replay))
        print(
            f"{name}, {what} of {batch} images: generic {times[0]:.0f} us, ours {times[1]:.0f} us"
        )


def main() -> None:
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for law in ("gaussian", "uniform", "laplace"):
        print(
            f"{law} noise, 1x28x28: {noise((1, 28, 28), 32768, law) * 1e5 / 32768:.2f} ms for 100,000"
        )
    lenet = build_model("lenet", seed=0).to(DEVICE).eval()
    resnet = calibrated(
        build_model("resnet110", 10, "cifar10", seed=0).to(DEVICE), (3, 32, 32), DEVICE
    )
    with torch.inference_mode():
        certification("LeNet", lenet, (1, 28, 28))
        certification("ResNet-110", resnet, (3, 32, 32))
    for batch in (256, 1024):
        training("LeNet", lenet, (1, 28, 28), batch)
    training("ResNet-110", resnet, (3, 32, 32), 256)


if __name__ == "__main__":
    main()
