#pragma once

#include "cuda/plan/candidates.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
