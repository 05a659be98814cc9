#include "test/gpusim/nccl/test/cases.h"
