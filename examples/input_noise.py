"""Why noise must not depend on the input: at another noise level, a neighbour's answer is worth C/d at most.

python examples/input_noise.py bound.svg
"""

import sys
from pathlib import Path

import numpy as np

from smoothcert.evaluation.input_noise import InputNoiseBound
from smoothcert.files import write_text
from smoothcert.report.charts.evaluations import dimension_svg

bound = InputNoiseBound(p=0.9, sigma=0.5, tau=0.6, epsilon=0.1)
print(f"C = {bound.constant:.6g}: noise levels 0.5 and 0.6 promise at most C/d")
for name, dimension in {"MNIST": 784, "CIFAR-10": 3072, "ImageNet": 150_528}.items():
    print(f"{name:9} d = {dimension:6}: {float(bound.at(dimension)):.4g}")
if sys.argv[1:]:
    dimensions = np.logspace(0, 7, 200)
    title = "Noise level 0.5 at an image, 0.6 at its neighbour"
    write_text(Path(sys.argv[1]), dimension_svg(dimensions, bound.at(dimensions), title))
