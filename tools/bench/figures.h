// The papers' figures as descriptions: what each shows, and which launches show it here. Data alone; `zerohop bench
// figure` (figure.h) runs them.
#pragma once

#include <span>
#include <string_view>

namespace zh::tools {

/// Ranks of a job: so many nodes of so many.
struct FigureLayout {
  int nodes = 1;
  int ranks_per_node = 1;
};

/// How ranks are placed, for the host and for zerohop alike.
struct FigureWay {
  std::string_view name;       ///< of its series, behind the library's; "": the only way
  bool in_turn = false;        ///< dealt out to the nodes one by one, not in blocks
  std::string_view placement;  ///< --placement of the program; "": free
};

/// How zerohop carries the collective out.
struct FigureAlgorithm {
  std::string_view name;   ///< of ZEROHOP_ALGORITHM; "": what zerohop does by itself
  std::string_view chunk;  ///< ZEROHOP_CHUNK; "": its default
};

struct Figure {
  std::string_view id;          ///< "cc-5a"
  std::string_view source;      ///< paper and figure
  std::string_view shows;       ///< in the paper
  std::string_view here;        ///< what is measured
  std::string_view not_here;    ///< what one machine cannot show of it
  std::string_view collective;  ///< as bench coll names it
  std::string_view sizes;       ///< comma list of bytes of a block
  std::span<const FigureLayout> layouts;
  std::span<const FigureWay> ways;
  std::span<const FigureAlgorithm> algorithms;
  bool any_root = false;  ///< the root moves on with every call
};

std::span<const Figure> figures();
/// Null if there is none of this name.
const Figure* figure_named(std::string_view id);

/// What other commands show of the papers' figures.
struct FigureElsewhere {
  std::string_view figures;
  std::string_view command;
};
std::span<const FigureElsewhere> figures_elsewhere();

}  // namespace zh::tools
