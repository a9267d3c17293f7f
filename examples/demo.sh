#!/bin/sh
# The whole story on the digits that come with smoothcert, in minutes on two cores: two methods are
# trained, certified, attacked, verified and compared on one page. Every line can be typed by hand.
set -e

smoothcert train mnist-mini/gaussian-0.50 --out smoothcert-demo/gaussian
smoothcert train mnist-mini/consistency-0.50 --out smoothcert-demo/consistency
smoothcert certify smoothcert-demo/gaussian --every 10 --n 2000
smoothcert certify smoothcert-demo/consistency --every 10 --n 2000
smoothcert attack smoothcert-demo/consistency --every 50 --radius 0.5 1 --noises 16 --n 1000
smoothcert verify smoothcert-demo/consistency --resample 2
smoothcert report smoothcert-demo --html smoothcert-demo/report.html
