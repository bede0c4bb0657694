package metamorphic

import (
	"math/rand/v2"
	"slices"
)

// Type is the type of a statement's result.
type Type uint8

// The types of values, and of the resources that statements change.
const (
	None         Type = iota
	Matrix            // float32, Side x Side
	Scalar            // float32
	Int               // int32, a scalar
	Variable          // a resource variable of a Matrix
	Reference         // a reference variable of a Matrix
	IntVariable       // a resource variable of an Int
	IntReference      // a reference variable of an Int
	Queue             // of matrices
)

// Side is the size of matrices.
const Side = 3

// Places is the most parts into which a program is cut.
const Places = 4

func (t Type) resource() bool { return t >= Variable }

// ref reports whether a resource is passed by reference.
func (t Type) ref() bool { return t == Reference || t == IntReference }

// Program is a list of statements, and what a client does with them.
type Program struct {
	Seed   uint64
	Stmts  []*Stmt
	Script []*Action
}

// Stmt is a statement. Statements refer to others by ID. A reference to a missing statement stands for the default value of its type.
type Stmt struct {
	ID    int
	Op    string
	Args  []int
	After []int // statements of the same block for which it also waits
	Place int   // of its nodes; -1 for none
	// Spread places the statement's nodes at random if it is not 0.
	Spread uint32
	Num    int      // a constant's value, a loop's iterations, a variant of the op
	Blocks []*Block // of a conditional, loop or call
}

// Block is a branch of a conditional, or the body of a loop or function.
type Block struct {
	Params []int // a loop's counter and state
	Stmts  []*Stmt
	Result int // a Matrix
}

// Action is an action of a client.
type Action struct {
	Kind    Kind
	Session int    // 0 or 1: sessions of different masters
	Upto    int    // of an Extend: the ID of the last statement that the sessions' graphs have from then on
	Seed    uint64 // of fed values
	Fetch   []int
	Target  []int
	Feed    []int // values fed in addition to the needed inputs
	Fail    int   // of a Fail: the statement that fails
	Parts   []*Action
}

// Kind is the kind of an action.
type Kind string

// The kinds of actions.
const (
	Run      Kind = "run"      // a step
	Extend   Kind = "extend"   // adds statements
	Callable Kind = "callable" // a step that is prepared once and run a few times
	Partial  Kind = "partial"  // a step in two parts
	Parallel Kind = "parallel" // several concurrent steps
	Fail     Kind = "fail"     // a step that fails
	Reopen   Kind = "reopen"   // closes a session: the next step uses a new one
)

// Walk visits all statements, outer ones first.
func (p *Program) Walk(visit func(*Stmt)) { walk(p.Stmts, visit) }

func walk(stmts []*Stmt, visit func(*Stmt)) {
	for _, s := range stmts {
		visit(s)
		for _, b := range s.Blocks {
			walk(b.Stmts, visit)
		}
	}
}

// Size counts the statements, including nested ones.
func (p *Program) Size() int {
	n := 0
	p.Walk(func(*Stmt) { n++ })
	return n
}

// Clone copies the program.
func (p *Program) Clone() *Program {
	return &Program{Seed: p.Seed, Stmts: cloneStmts(p.Stmts), Script: cloneActions(p.Script)}
}

func cloneStmts(stmts []*Stmt) []*Stmt {
	out := make([]*Stmt, len(stmts))
	for i, s := range stmts {
		c := *s
		c.Args, c.After, c.Blocks = slices.Clone(s.Args), slices.Clone(s.After), nil
		for _, b := range s.Blocks {
			c.Blocks = append(c.Blocks, &Block{slices.Clone(b.Params), cloneStmts(b.Stmts), b.Result})
		}
		out[i] = &c
	}
	return out
}

func cloneActions(actions []*Action) []*Action {
	out := make([]*Action, len(actions))
	for i, a := range actions {
		c := *a
		c.Fetch, c.Target, c.Feed = slices.Clone(a.Fetch), slices.Clone(a.Target), slices.Clone(a.Feed)
		c.Parts = cloneActions(a.Parts)
		out[i] = &c
	}
	return out
}

// Out returns the type of the statement's result.
func (s *Stmt) Out() Type {
	if t, ok := creators[s.Op]; ok {
		return t
	}
	if o := pures[s.Op]; o != nil {
		return o.out
	}
	if o := touchers[s.Op]; o != nil {
		return o.out
	}
	return Matrix // a construct
}

// functional reports whether a construct's blocks are functions.
func (s *Stmt) functional() bool {
	switch s.Op {
	case "if", "case", "while", "call", "invoke":
		return true
	}
	return false
}

// creators are the statements that make resources. They are at the top level.
var creators = map[string]Type{"variable": Variable, "reference": Reference, "intvariable": IntVariable, "intreference": IntReference, "queue": Queue}

// scramble returns a random generator seeded with two numbers.
func scramble(a, b uint64) *rand.Rand { return rand.New(rand.NewPCG(a, b)) }
