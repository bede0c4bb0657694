package metamorphic

import (
	"fmt"
	"slices"
	"strings"
)

// String lists the program: a line for each statement and each action.
func (p *Program) String() string {
	var b strings.Builder
	list(&b, p.Stmts, "  ")
	b.WriteString("script:\n")
	for i, a := range p.Script {
		fmt.Fprintf(&b, "  %d %s\n", i, a)
		for _, part := range a.Parts {
			fmt.Fprintf(&b, "      %s\n", part)
		}
	}
	return b.String()
}

func list(b *strings.Builder, stmts []*Stmt, indent string) {
	for _, s := range stmts {
		fmt.Fprintf(b, "%s%s\n", indent, s)
		for i, bl := range s.Blocks {
			fmt.Fprintf(b, "%s  block %d%s:\n", indent, i, named(" of", bl.Params))
			list(b, bl.Stmts, indent+"    ")
			fmt.Fprintf(b, "%s    gives%s\n", indent, named("", []int{bl.Result}))
		}
	}
}

// String returns the statement without its blocks: s4 = add s1 s2 @1 after s3.
func (s *Stmt) String() string {
	out := fmt.Sprintf("s%d = %s%s", s.ID, s.Op, named("", s.Args))
	switch s.Op {
	case "loop", "while":
		out += fmt.Sprintf(", %d times", s.Num&iterationsMask)
		if s.Num&untilFlag != 0 {
			out += fmt.Sprintf(", until the sum is %d", untilSum)
		}
		if s.Op == "loop" && s.Num&arrayFlag != 0 {
			out += ", with an array"
		}
	case "const", "sconst", "iconst":
		out += " " + plainValue(s.Out(), s.Num).String()
	case "matmul", "scatteradd", "scatterupdate", "rscatteradd", "rscatterupdate":
		out += fmt.Sprintf(" (%d)", s.Num)
	}
	if s.functional() && s.Num&lowerFlag != 0 && s.Op != "call" && s.Op != "invoke" {
		out += ", lowered"
	}
	if s.Spread != 0 {
		out += " @spread"
	} else if s.Place >= 0 {
		out += fmt.Sprintf(" @%d", s.Place)
	}
	return out + named(" after", s.After)
}

// String returns the action: run s3, s4 and s5, feeding s1.
func (a *Action) String() string {
	out := string(a.Kind)
	switch a.Kind {
	case Extend:
		return fmt.Sprintf("the graph goes up to s%d", a.Upto)
	case Parallel:
		return "at the same time:"
	case Fail:
		out += fmt.Sprintf(" at s%d:", a.Fail)
	}
	out += named(" fetch", a.Fetch) + named(" target", a.Target) + named(" feed", a.Feed)
	if a.Session != 0 {
		out += " in the second session"
	}
	return out
}

func named(what string, ids []int) string {
	if len(ids) == 0 {
		return ""
	}
	out := what
	for _, id := range ids {
		if id == 0 {
			out += " -"
		} else {
			out += fmt.Sprintf(" s%d", id)
		}
	}
	return out
}

// String describes the variant.
func (v Variant) String() string {
	out := fmt.Sprintf("on %s, masters %v, places turned by %d", shapes[v.Shape], v.Masters, v.Turn)
	for what, on := range map[string]bool{"everything lowered": v.Lower == LowerAll, "nothing lowered": v.Lower == LowerNone} {
		if on {
			out += ", " + what
		}
	}
	if v.FeedConsts {
		out += ", constants fed"
	}
	if v.Trace {
		out += ", traced"
	}
	if v.Shuffle != 0 {
		out += ", nodes shuffled"
	}
	return out
}

// tidied returns the program without references to missing statements.
func (p *Program) tidied() *Program {
	p = p.Clone()
	there := map[int]bool{}
	p.Walk(func(s *Stmt) {
		there[s.ID] = true
		for _, b := range s.Blocks {
			for _, id := range b.Params {
				there[id] = true
			}
		}
	})
	gone := func(id int) bool { return !there[id] }
	p.Walk(func(s *Stmt) {
		s.After = slices.DeleteFunc(s.After, gone)
		for i, id := range s.Args {
			if gone(id) {
				s.Args[i] = 0
			}
		}
		for _, b := range s.Blocks {
			if gone(b.Result) {
				b.Result = 0
			}
		}
	})
	var tidy func(actions []*Action)
	tidy = func(actions []*Action) {
		for _, a := range actions {
			a.Fetch, a.Target, a.Feed = slices.DeleteFunc(a.Fetch, gone), slices.DeleteFunc(a.Target, gone), slices.DeleteFunc(a.Feed, gone)
			tidy(a.Parts)
		}
	}
	tidy(p.Script)
	return p
}
