// SPDX-License-Identifier: Apache-2.0
// rlu.hpp: multi-version read-log-update: turn a locked structure into one with snapshot-consistent
// reads that never wait. See rlu/domain.hpp.
#pragma once

#include <spolia/rlu/array.hpp>
#include <spolia/rlu/detector.hpp>
#include <spolia/rlu/domain.hpp>
#include <spolia/rlu/pointers.hpp>
#include <spolia/rlu/section.hpp>
