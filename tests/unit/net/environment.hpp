// SPDX-License-Identifier: MIT
// Sets environment variables for a test.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

namespace verbena::test {

/// Sets the given launcher variables and unsets all others. The destructor restores the previous
/// values.
class launcher_environment {
 public:
  explicit launcher_environment(const std::map<std::string, std::string>& variables) {
    for (const char* const each : names) {
      if (const char* const old = std::getenv(each)) before_[each] = old;
      ::unsetenv(each);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  launcher_environment(const launcher_environment&) = delete;
  launcher_environment& operator=(const launcher_environment&) = delete;
  ~launcher_environment() {
    for (const char* const each : names) ::unsetenv(each);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* names[] = {"RANK",
                                          "WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "VERBENA_STORE",
                                          "VERBENA_NETWORK",
                                          "VERBENA_GROUP",
                                          "VERBENA_SECRET",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "PMIX_NAMESPACE",
                                          "PMIX_RANK",
                                          "VERBENA_ETCD",
                                          "VERBENA_SERVICE",
                                          "VERBENA_STORE_PORT",
                                          "TORCHELASTIC_USE_AGENT_STORE"};
  std::map<std::string, std::string> before_;
};

}  // namespace verbena::test
