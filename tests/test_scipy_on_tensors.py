"""SciPy computes the same on tensors, with `SCIPY_ARRAY_API=1`, as on numpy arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor

stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed: tox run -e interop")
cluster = pytest.importorskip("scipy.cluster")
fft = pytest.importorskip("scipy.fft")
integrate = pytest.importorskip("scipy.integrate")
ndimage = pytest.importorskip("scipy.ndimage")
signal = pytest.importorskip("scipy.signal")
special = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1",
    reason="SciPy takes arrays of others where SCIPY_ARRAY_API is 1",
)

Convert = Callable[[np.ndarray], Any]
Case = Callable[[Convert], Any]

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((40, 3))
SQUARE = MATRIX @ MATRIX.T
X, Y = RNG.standard_normal(50), RNG.standard_normal(50)
INSIDE = RNG.random(50) * 0.8 + 0.1
POSITIVE = INSIDE + 0.5
NUMERATOR, DENOMINATOR = signal.butter(3, 0.2)


def apply(module: Any, names: str, *arrays: np.ndarray, **options: object) -> dict[str, Case]:
    """Cases of functions with the same array arguments."""

    def make(name: str) -> Case:
        return lambda convert: getattr(module, name)(*map(convert, arrays), **options)

    label = module.__name__.removeprefix("scipy.")
    return {f"{label}.{name}": make(name) for name in names.split()}


CASES: dict[str, Case] = {
    **apply(
        stats,
        "moment skew kurtosis skewtest kurtosistest normaltest jarque_bera describe zscore"
        " variation sem circmean circvar circstd differential_entropy tmean tvar tstd tsem tmin"
        " tmax rankdata lmoment iqr sigmaclip",
        X,
    ),
    **apply(stats, "gmean hmean entropy gzscore chisquare power_divergence gstd", POSITIVE),
    **apply(
        stats,
        "zmap pearsonr ttest_ind ttest_rel f_oneway bartlett spearmanr wasserstein_distance"
        " linregress alexandergovern chatterjeexi kruskal mannwhitneyu kendalltau levene fligner"
        " ansari mood ks_2samp wilcoxon",
        X,
        Y,
    ),
    **apply(stats, "combine_pvalues false_discovery_control", INSIDE),
    "stats.ttest_1samp": lambda convert: stats.ttest_1samp(convert(X), 0.1),
    "stats.trim_mean": lambda convert: stats.trim_mean(convert(X), 0.1),
    "stats.boxcox_llf": lambda convert: stats.boxcox_llf(0.5, convert(POSITIVE)),
    "stats.yeojohnson_llf": lambda convert: stats.yeojohnson_llf(0.5, convert(POSITIVE)),
    "stats.directional_stats": lambda convert: (
        stats.directional_stats(convert(MATRIX)).mean_direction
    ),
    **apply(
        special,
        "log_ndtr ndtr ndtri erf erfc i0 i0e i1 i1e gammaln gamma digamma entr expit logit erfinv"
        " exp1 expm1 log1p sinc rgamma exp2 exp10 cbrt",
        INSIDE,
    ),
    **apply(
        special,
        "rel_entr xlogy xlog1py chdtr chdtrc betaln gammainc gammaincc stdtrit zeta kl_div",
        POSITIVE + 1,
        INSIDE,
    ),
    **apply(special, "logsumexp softmax log_softmax", MATRIX, axis=0),
    **apply(signal, "convolve correlate", X, Y, method="direct"),
    **apply(signal, "fftconvolve oaconvolve", X, Y),
    **apply(signal, "csd coherence", X, Y, nperseg=16),
    **apply(signal, "welch stft spectrogram", X, nperseg=16),
    **apply(signal, "detrend hilbert periodogram sawtooth square find_peaks", X),
    **apply(signal, "lfilter filtfilt", NUMERATOR, DENOMINATOR, X),
    **apply(signal, "lfilter_zi bilinear", NUMERATOR, DENOMINATOR),
    **apply(signal, "convolve2d", MATRIX, MATRIX),
    **apply(signal, "upfirdn", NUMERATOR, X),
    "signal.freqz": lambda convert: signal.freqz(convert(NUMERATOR), convert(DENOMINATOR), worN=8),
    "signal.vectorstrength": lambda convert: signal.vectorstrength(convert(INSIDE), 0.3),
    "signal.resample": lambda convert: signal.resample(convert(X), 30),
    "signal.resample_poly": lambda convert: signal.resample_poly(convert(X), 3, 2),
    "signal.decimate": lambda convert: signal.decimate(convert(X), 2),
    "signal.savgol_filter": lambda convert: signal.savgol_filter(convert(X), 5, 2),
    "signal.medfilt": lambda convert: signal.medfilt(convert(X), 3),
    "signal.wiener": lambda convert: signal.wiener(convert(X), 3),
    "signal.chirp": lambda convert: signal.chirp(convert(INSIDE), 1.0, 1.0, 2.0),
    "cluster.whiten": lambda convert: cluster.vq.whiten(convert(MATRIX)),
    "cluster.vq": lambda convert: cluster.vq.vq(convert(MATRIX), convert(MATRIX[:4])),
    "cluster.kmeans": lambda convert: cluster.vq.kmeans(convert(MATRIX), convert(MATRIX[:3])),
    "cluster.kmeans2": lambda convert: cluster.vq.kmeans2(
        convert(MATRIX), convert(MATRIX[:3]), minit="matrix"
    ),
    "cluster.linkage": lambda convert: cluster.hierarchy.linkage(convert(MATRIX)),
    **apply(fft, "fft ifft rfft hfft fft2 fftn dct dst", SQUARE),
    **apply(ndimage, "sobel laplace", SQUARE),
    **apply(ndimage, "median_filter uniform_filter", SQUARE, size=3),
    **apply(ndimage, "gaussian_filter", SQUARE, sigma=1),
    **apply(integrate, "trapezoid cumulative_trapezoid", Y, np.sort(X)),
    "integrate.simpson": lambda convert: integrate.simpson(convert(Y), x=convert(np.sort(X))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_numpy(name: str) -> None:
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [np.asarray(part) for part in parts_of(case(lambda array: array))]
        found = [
            np.asarray(part)
            for part in parts_of(case(lambda array: Tensor(np.ascontiguousarray(array))))
        ]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


OUTPUTS: dict[str, Callable[[Any, Any], Any]] = {
    "sobel": lambda x, output: ndimage.sobel(x, output=output),
    "zoom by 1": lambda x, output: ndimage.zoom(x, 1, output=output),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is_a_tensor_is_written(name: str) -> None:
    wanted, output = np.zeros_like(SQUARE), Tensor(np.zeros_like(SQUARE))
    OUTPUTS[name](SQUARE, wanted)
    before = output + 1
    OUTPUTS[name](Tensor(SQUARE), output)
    np.testing.assert_allclose(output.numpy(), wanted)
    np.testing.assert_array_equal(before.numpy(), 1)


def test_a_cython_function_takes_tensors_as_memory_that_it_may_write() -> None:
    sections = signal.butter(4, 0.2, output="sos")
    found = signal.sosfilt(Tensor(sections), Tensor(X))
    np.testing.assert_allclose(np.asarray(found), signal.sosfilt(sections, X))


def parts_of(result: object) -> list[object]:
    """Flatten the arrays in tuples, dicts and results of statistical tests."""
    if isinstance(result, dict):
        return parts_of(list(result.values()))
    if isinstance(result, (tuple, list)):
        return [one for part in result for one in parts_of(part)]
    if hasattr(result, "statistic"):
        return [result.statistic, result.pvalue]
    return [result]
