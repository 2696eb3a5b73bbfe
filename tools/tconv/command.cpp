#include "command.hpp"

namespace tconv::cli {

void demand(const core::Status& status) {
  using core::Code;
  if (status.ok()) return;
  const bool usage = status.code() == Code::invalid_argument || status.code() == Code::invalid_problem;
  if (usage) throw UsageError(status.message());
  throw Failure(status.message());
}

}  // namespace tconv::cli
