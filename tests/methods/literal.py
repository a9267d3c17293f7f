"""The papers' formulas written out with loops on one image at a time, in NumPy and without autograd.

Written before the methods, from the formulas alone, as their independent judge. An image is a flat array of 16 pixels,
`noise[i]` the i-th noise of that image. Gradients of the two-layer network are by hand.
"""

import numpy as np
from scipy.special import ndtri


class Net:
    """logits = W2 tanh(W1 x + b1) + b2, with the weights of a torch network of that shape."""

    def __init__(self, model):
        self.w1, self.b1, self.w2, self.b2 = (p.detach().numpy().copy() for p in model.parameters())

    def logits(self, x):
        return self.w2 @ np.tanh(self.w1 @ x + self.b1) + self.b2

    def softmax(self, x, beta=1.0):
        z = beta * self.logits(x)
        powers = np.exp(z - z.max())
        return powers / powers.sum()

    def pull(self, x, slope):
        """From d/dlogits to d/dx."""
        hidden = np.tanh(self.w1 @ x + self.b1)
        return self.w1.T @ ((1 - hidden**2) * (self.w2.T @ slope))


def norm(v):
    return float(np.sqrt(sum(float(entry) ** 2 for entry in v)))


def project(point, centre, radius):
    d = point - centre
    return centre + d * (radius / norm(d)) if norm(d) > radius else point


def kl(p, q):
    return sum(p[c] * (np.log(p[c]) - np.log(q[c])) for c in range(len(p)) if p[c] > 0)


# ---- gradients of the attacks' objectives


def smoothed_gradient(net, x, y, noise, beta=1.0):
    """Of -log( (1/m) sum_i softmax(beta z(x + delta_i))_y )."""
    mean = sum(net.softmax(x + delta, beta)[y] for delta in noise) / len(noise)
    total = np.zeros_like(x)
    for delta in noise:
        p = net.softmax(x + delta, beta)
        slope = [beta * p[y] * ((c == y) - p[c]) for c in range(len(p))]
        total += net.pull(x + delta, np.array(slope)) / len(noise)
    return -total / mean


def kl_gradient(net, x, target):
    """Of KL(target || softmax(z(x))) with respect to x."""
    p = net.softmax(x)
    return net.pull(x, np.array([p[c] - target[c] for c in range(len(p))]))


def expected_gradient(net, x, y, noise, beta=1.0):
    """Of (1/m) sum_i -log softmax(beta z(x + delta_i))_y: SmoothAdv's equation 4."""
    total = np.zeros_like(x)
    for delta in noise:
        p = net.softmax(x + delta, beta)
        slope = [beta * (p[c] - (c == y)) for c in range(len(p))]
        total += net.pull(x + delta, np.array(slope)) / len(noise)
    return total


# ---- attacks


def smoothadv_pgd(net, x, y, noise, epsilon, steps, beta=1.0):
    d = np.zeros_like(x)
    for _ in range(steps):
        g = smoothed_gradient(net, x + d, y, noise, beta)
        d = d + 2 * epsilon / steps * g / norm(g)
        d = np.clip(x + d, 0, 1) - x
        d = project(d, np.zeros_like(d), epsilon)
    return x + d


def printed_pgd(net, x, y, noise, epsilon, steps, beta=1.0, gradient=smoothed_gradient):
    """Steps of 2 epsilon / T up the normalised gradient, within the ball and nothing else."""
    d = np.zeros_like(x)
    for _ in range(steps):
        g = gradient(net, x + d, y, noise, beta)
        d = project(d + 2 * epsilon / steps * g / norm(g), np.zeros_like(d), epsilon)
    return x + d


def expected_pgd(net, x, y, noise, epsilon, steps, beta=1.0):
    d = np.zeros_like(x)
    for _ in range(steps):
        g = expected_gradient(net, x + d, y, noise, beta)
        d = np.clip(x + d + 2 * epsilon / steps * g / norm(g), 0, 1) - x
        d = project(d, np.zeros_like(d), epsilon)
    return x + d


def stein_hard_gradient(net, x, y, noise):
    """Section 3.1 as printed, for votes: minus the mean of the noises that are answered with y."""
    kept = [delta for delta in noise if int(np.argmax(net.logits(x + delta))) == y]
    return -sum(kept, np.zeros_like(x)) / len(noise)


def consistency_pgd(net, x, y, noise, epsilon, steps, images):
    """`images` in the chunk: the loss is a mean over them, and the 1e-8 is beside that mean's gradient."""
    point = x.copy()
    for _ in range(steps):
        g = smoothed_gradient(net, point, y, noise) / images
        point = point + 2 * epsilon / steps * g / (norm(g) + 1e-8)
        point = np.clip(project(point, x, epsilon), 0, 1)
    return point


def stein_pgd(net, x, y, noise, epsilon, steps):
    d = np.zeros_like(x)
    for _ in range(steps):
        g = -sum(net.softmax(x + d + delta)[y] * delta for delta in noise) / len(noise)
        d = d + 2 * epsilon / steps * g / norm(g)
        d = project(np.clip(x + d, 0, 1) - x, np.zeros_like(d), epsilon)
    return x + d


def smoothmix_iterates(net, x, y, noise, alpha, steps, max_norm=None):
    points = [x.copy()]
    for _ in range(steps):
        g = smoothed_gradient(net, points[-1], y, noise)
        point = points[-1] + alpha * g / (norm(g) + 1e-8)
        if max_norm is not None:
            point = project(point, x, max_norm)
        points.append(np.clip(point, 0, 1))
    return points


def smoothmix_printed_iterates(net, x, y, noise, alpha, steps, max_norm=None):
    """Equations 7 and 8, and the hard limit of the supplement's table 10 where there is one."""
    points = [x.copy()]
    for _ in range(steps):
        g = smoothed_gradient(net, points[-1], y, noise)
        point = points[-1] + alpha * g / norm(g)
        points.append(point if max_norm is None else project(point, x, max_norm))
    return points


def printed_rates(steps):
    """A cosine from 1 in the first step to 0.01 in the last."""
    if steps == 1:
        return [1.0]
    return [0.505 + 0.495 * np.cos(np.pi * t / (steps - 1)) for t in range(steps)]


def ddn(net, x, y, noise, epsilon, steps, gamma=0.05, start=None, rates=None):
    def quantised(d):
        return np.round((x + d) * 255) / 255 - x

    worst = norm(np.maximum(x, 1 - x))
    d, rho, best, best_norm = np.zeros_like(x), start or epsilon, np.zeros_like(x), worst
    for t in range(steps):
        rate = (
            0.01 + 0.99 * (1 + np.cos(np.pi * (t + 1) / steps)) / 2 if rates is None else rates[t]
        )
        votes = [int(np.argmax(net.logits(x + d + delta))) for delta in noise]
        counts = [votes.count(c) for c in range(len(net.b2))]
        adversarial = counts.index(max(counts)) != y
        if adversarial and norm(d) < best_norm:
            best, best_norm = d.copy(), norm(d)
        g = smoothed_gradient(net, x + d, y, noise)
        d = d + rate * g / norm(g)
        rho = min(rho * (1 - gamma if adversarial else 1 + gamma), worst)
        d = d * rho / norm(d)
        d = np.clip(x + quantised(d), 0, 1) - x
    return x + quantised(project(best, np.zeros_like(best), epsilon))


def catrs_noise(net, x, delta, target, epsilon, steps, noises):
    """`noises` M: the loss is a mean over them, and the 1e-8 is beside that mean's gradient."""
    mean0, rms0 = delta.mean(), np.sqrt((delta**2).mean())
    n = delta.copy()
    for _ in range(steps):
        g = kl_gradient(net, x + n, target) / noises
        n = project(n + 2 * epsilon / steps * g / (norm(g) + 1e-8), delta, epsilon)
        n = mean0 + rms0 * (n - n.mean()) / np.sqrt((n**2).mean())
    return n


def catrs_printed_noise(net, x, delta, target, epsilon, steps):
    """Appendix C.4: T steps in the ball, then mean and standard deviation as those of delta."""
    n = delta.copy()
    for _ in range(steps):
        g = kl_gradient(net, x + n, target)
        n = project(n + 2 * epsilon / steps * g / norm(g), delta, epsilon)
    return delta.mean() + delta.std() * (n - n.mean()) / n.std()


def sphere_noise(net, x, y, delta, epsilon, steps):
    """The first of delta = n_0, n_1, ..., n_steps that is misclassified, or the last."""
    n = delta.copy()
    for _ in range(steps):
        if int(np.argmax(net.logits(x + n))) != y:
            return n
        p = net.softmax(x + n)
        g = net.pull(x + n, np.array([p[c] - (c == y) for c in range(len(p))]))
        n = n + epsilon * g / (norm(g) + 1e-8)
        n = n * norm(delta) / norm(n)
    return n


# ---- losses; `images[b]`, `labels[b]`, `noise[b][i]`; what an attack found is given, since no gradient goes through it


def cross_entropy(net, points, labels, noise):
    """Mean over images and copies: Gaussian training, and SmoothAdv's with attacked points."""
    m = len(noise[0])
    return sum(
        -np.log(net.softmax(points[b] + noise[b][i])[labels[b]])
        for b in range(len(labels))
        for i in range(m)
    ) / (m * len(labels))


def stability(net, images, labels, noise, lam):
    total = 0.0
    for b, y in enumerate(labels):
        clean, noisy = net.softmax(images[b]), net.softmax(images[b] + noise[b][0])
        total += -np.log(clean[y]) - lam * sum(
            clean[c] * np.log(noisy[c]) for c in range(len(clean))
        )
    return total / len(labels)


def macer(net, images, labels, noise, sigma, lam, beta, gamma):
    total = 0.0
    for b, y in enumerate(labels):
        copies = [images[b] + delta for delta in noise[b]]
        total += -np.log(sum(net.softmax(copy)[y] for copy in copies) / len(copies) + 1e-10)
        q = sum(net.softmax(copy, beta) for copy in copies) / len(copies)
        second, first = np.sort(q)[-2:]
        margin = ndtri(first) - ndtri(second)
        if int(np.argmax(q)) == y and np.isfinite(margin) and abs(margin) <= gamma:
            total += lam * sigma / 2 * (gamma - margin)
    return total / len(labels)


def macer_printed(net, images, labels, noise, sigma, lam, beta, gamma):
    """Equations 6 and 8 of the Consistency supplement; the code's 1e-10 stays in the logarithm."""
    total = 0.0
    for b, y in enumerate(labels):
        copies = [images[b] + delta for delta in noise[b]]
        total += -np.log(sum(net.softmax(copy)[y] for copy in copies) / len(copies) + 1e-10)
        q = sum(net.softmax(copy, beta) for copy in copies) / len(copies)
        others = max(q[c] for c in range(len(q)) if c != y)
        if q[y] > others:
            radius = sigma / 2 * (ndtri(q[y]) - ndtri(others))
            total += lam * sigma / 2 * max(gamma - radius, 0)
    return total / len(labels)


def consistency(net, points, labels, noise, lam, eta, form):
    total = cross_entropy(net, points, labels, noise)
    for b in range(len(labels)):
        p = [net.softmax(points[b] + delta) for delta in noise[b]]
        mean = sum(p) / len(p)
        divergence = sum(kl(mean, q) for q in p) / len(p)
        entropy = -sum(v * np.log(v) for v in mean)
        total += {
            "kl+entropy": lam * divergence + eta * entropy,
            "kl": lam * divergence,
            "xent": lam * (divergence + entropy),
            "mse": lam * sum((p[0][c] - p[1][c]) ** 2 for c in range(len(mean))),
        }[form] / len(labels)
    return total


def smoothmix(net, starts, ends, labels, noise, mixing, weight):
    """`starts` x', `ends` x~(T), `mixing` lambda_b, `weight` eta * w_e."""
    total, m = cross_entropy(net, starts, labels, noise), len(noise[0])
    for b, y in enumerate(labels):
        p = sum(net.softmax(starts[b] + delta) for delta in noise[b]) / m
        if int(np.argmax(p)) != y:
            continue
        mixed = (1 - mixing[b]) * starts[b] + mixing[b] * ends[b]
        target = (1 - mixing[b]) * p + mixing[b] / len(p)
        total += (
            weight
            * sum(kl(target, net.softmax(mixed + delta)) for delta in noise[b])
            / (m * len(labels))
        )
    return total


def smoothmix_pairs(net, starts, ends, noise, mixing):
    """(x_mix, y_mix) of equations 9 and 10: data, with the network as it is."""
    pairs = []
    for b, lam in enumerate(mixing):
        p = sum(net.softmax(starts[b] + delta) for delta in noise[b]) / len(noise[b])
        y_mix = [(1 - lam) * entry + lam / len(p) for entry in p]
        pairs.append(((1 - lam) * starts[b] + lam * ends[b], y_mix))
    return pairs


def smoothmix_printed(net, starts, pairs, labels, noise, eta):
    """Equations 11 and 12, and lines 12 to 15 of algorithm 1."""
    total = 0.0
    for b, y in enumerate(labels):
        m, (x_mix, y_mix) = len(noise[b]), pairs[b]
        for delta in noise[b]:
            f = net.softmax(x_mix + delta)
            natural = -np.log(net.softmax(starts[b] + delta)[y])
            mix = -sum(y_mix[c] * np.log(f[c]) for c in range(len(f)))
            total += (natural + eta * mix) / m
    return total / len(labels)


def catrs(
    net, images, labels, noise, worst, targets, kept, lam, low="bottom-k", high="max", mask=True
):
    """`worst[b][i]` the attacked noises, `kept[b]` K+, `targets[b]` y-hat."""
    total = 0.0
    for b, y in enumerate(labels):
        losses = sorted(-np.log(net.softmax(images[b] + delta)[y]) for delta in noise[b])
        m = len(losses)
        total += {"bottom-k": sum(losses[: kept[b]]) / m, "mean": sum(losses) / m, "none": 0.0}[low]
        divergences = [kl(targets[b], net.softmax(images[b] + n)) for n in worst[b]]
        if kept[b] == m or not mask:
            total += lam * (max(divergences) if high == "max" else sum(divergences) / m)
    return total / len(labels)
