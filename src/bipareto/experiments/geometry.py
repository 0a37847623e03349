"""The geometry of the direction for two objectives: which convex combination of the gradients a preference and u choose."""

import jax.numpy as jnp
import numpy as np

from bipareto.simplex import simplex_qp

GRADIENTS = np.array([[2.0, 0.4], [-0.5, 1.2]])
VALUES = np.array([1.0, 1.5])
PREFERENCE = np.array([0.7, 0.3])


def geometry(least: float = 1e-3, most: float = 1e2, count: int = 61) -> dict:
    """Directions d = sum_s w_s grad phi_s: MGDA's (the shortest of the hull), WC-MHGD's over u, the ends of both hulls."""
    scaled = PREFERENCE[:, None] * GRADIENTS
    linear = PREFERENCE * VALUES
    shares = np.geomspace(least, most, count)
    chosen = [np.asarray(simplex_qp(jnp.asarray(scaled @ scaled.T), jnp.asarray(u * linear))) for u in (0.0, *shares)]
    shortest = np.asarray(simplex_qp(jnp.asarray(GRADIENTS @ GRADIENTS.T)))
    return {
        "gradients": GRADIENTS.tolist(),
        "values": VALUES.tolist(),
        "preference": PREFERENCE.tolist(),
        "mgda": (shortest @ GRADIENTS).tolist(),
        "scaled": (chosen[0] @ scaled).tolist(),
        "u": shares.tolist(),
        "weights": [lam.tolist() for lam in chosen[1:]],
        "directions": [(lam @ scaled).tolist() for lam in chosen[1:]],
    }
