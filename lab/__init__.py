# SPDX-License-Identifier: Apache-2.0
"""The laboratory: runs sweeps of spolia-bench and draws what came out of them."""
