#include "scene.h"
#include "test/unit/unit.h"
