# SPDX-License-Identifier: Apache-2.0
"""The evaluation of 'Are Your Epochs Too Epic? Batch Free Can Be Harmful', page by page."""
