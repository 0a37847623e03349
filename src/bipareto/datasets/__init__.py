"""Data that ships with the package, or is found, downloaded, verified and cached. Nothing is ever made up.

`mnist` and `fc100` look in this order: the `path` they are given (a folder, or an `.npz` with `images` and `labels`), the
folder named by the environment variable `BIPARETO_DATA` (in it `mnist` and `fc100`), the cache, the network.
"""

from bipareto.datasets.arrays import Images
from bipareto.datasets.digits import digits
from bipareto.datasets.fc100 import fc100
from bipareto.datasets.mnist import mnist

__all__ = ["Images", "digits", "fc100", "mnist"]
