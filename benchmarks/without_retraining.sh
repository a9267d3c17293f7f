#!/bin/sh
# The table of docs/without-retraining.md: a classifier that was trained without noise, before and after denoising,
# beside networks that were trained or tuned for the noise. Embedded MNIST subset, on a CPU, in the folder $1.
set -e
mkdir -p "$1" && cd "$1"
smoothcert train mnist-mini/gaussian-0.50 --sigma 0 --out plain

for sigma in 0.25 0.50; do
    smoothcert train "mnist-mini/denoiser-$sigma" --out "denoiser-$sigma"
    smoothcert denoised --denoiser "denoiser-$sigma" --classifier plain --out "denoised-$sigma"
    smoothcert certify plain --sigma "$sigma" --every 5 --n 1000 --name "$sigma"
    smoothcert certify "denoised-$sigma" --every 5 --n 1000 --name "$sigma"
done

smoothcert train mnist-mini/denoiser-0.50 --init-from denoiser-0.50 --method.classifier plain --epochs 2 --lr 2e-4 \
    --out stab-0.50
smoothcert denoised --denoiser stab-0.50 --classifier plain --out denoised-stab
smoothcert train finetune --model lenet --init-from plain --data mnist-mini --sigma 0.5 --out finetuned
for seed in 0 1 2; do
    smoothcert train mnist-mini/gaussian-0.50 --seed "$seed" --out "gaussian-$seed"
done
smoothcert ensemble gaussian-0 gaussian-1 gaussian-2 --out ensemble
for run in denoised-stab finetuned gaussian-0 gaussian-1 gaussian-2 ensemble; do
    smoothcert certify "$run" --every 5 --n 1000 --name 0.50
done

smoothcert report plain denoised-0.25 denoised-0.50 denoised-stab finetuned gaussian-0 gaussian-1 gaussian-2 ensemble \
    --radius 0 0.25 0.5 0.75 1 --markdown table.md
