// SPDX-License-Identifier: MIT
// Everything of Verbena but the optional adapters.
#pragma once
