package metamorphic

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// deepest bounds the nesting of constructs.
const deepest = 3

// maxResources bounds a program's resources.
const maxResources = 6

// generator makes a program's statements.
type generator struct {
	r    *rand.Rand
	next int
	f    map[int]Type
	// creating counts the resources so far.
	creating int
	late     map[int]bool
}

// pool holds what the statements of a block may use.
type pool struct {
	g          *generator
	values     map[Type][]int // and resources
	own        []int          // statements of the block
	depth      int
	functional bool
	stmts      []*Stmt
}

// New makes the program of a seed, with that number of top-level statements beside its inputs.
func New(seed uint64, statements int) *Program {
	g := &generator{r: rand.New(rand.NewPCG(seed, 7)), f: map[int]Type{}, late: map[int]bool{}}
	top := &pool{g: g, values: map[Type][]int{}}
	for range 2 + g.r.IntN(2) {
		top.add("input")
	}
	top.add("sum", top.pick(Matrix))
	for range statements {
		top.statement()
	}
	p := &Program{Seed: seed, Stmts: top.stmts}
	p.Script = newScript(p, scramble(seed, 13))
	return p
}

// Of makes the program of a seed, of a size that depends on it.
func Of(seed uint64) *Program { return New(seed, 2+int(seed)%16) }

func (b *pool) pick(t Type) int {
	list := b.values[t]
	if len(list) == 0 {
		b.add(map[Type]string{Matrix: "const", Scalar: "sconst", Int: "iconst"}[t])
		list = b.values[t]
	}
	if n := len(list); n > 3 && b.g.r.IntN(2) == 0 {
		return list[n-1-b.g.r.IntN(3)]
	}
	return list[b.g.r.IntN(len(list))]
}

func (g *generator) somewhere() int { return g.r.IntN(Places+1) - 1 }

// add adds a statement to the block.
func (b *pool) add(op string, args ...int) { b.put(&Stmt{Op: op, Args: args}) }

func (b *pool) put(s *Stmt) *Stmt {
	g := b.g
	if s.ID == 0 {
		g.next++
		s.ID = g.next
	}
	s.Place = g.somewhere()
	if s.Num == 0 {
		s.Num = g.r.IntN(64)
	}
	if g.r.IntN(3) == 0 {
		s.Spread = g.r.Uint32()
	}
	_, creates := creators[s.Op]
	source := pures[s.Op] != nil && len(s.Args) == 0 // may be fed, and then waits for nothing
	if !source && !creates && g.r.IntN(6) == 0 && len(b.own) > 0 {
		s.After = []int{b.own[g.r.IntN(len(b.own))]}
	}
	b.stmts = append(b.stmts, s)
	t := s.Out()
	g.f[s.ID] = t
	if o := touchers[s.Op]; o != nil && o.late {
		g.late[s.ID] = true
	}
	if !g.late[s.ID] && s.Op != "input" && !creates {
		b.own = append(b.own, s.ID)
	}
	if t != None {
		b.values[t] = append(b.values[t], s.ID)
	}
	return s
}

// The kinds of statements; frequent kinds are repeated.
var (
	pureKinds = []string{"neg", "abs", "relu", "tanh", "sigmoid", "add", "add", "sub", "sub", "mul", "max", "min", "scale", "shift", "matmul", "addn", "select",
		"transpose", "rotate", "identity", "reshape", "reshape", "sum", "top", "mean", "sadd", "smul", "smax", "plus", "times", "toint", "tofloat", "fill", "const", "sconst", "iconst"}
	constructs = []string{"cond", "cond", "loop", "loop", "if", "case", "while", "call", "invoke"}
	resources  = []string{"variable", "variable", "reference", "reference", "intvariable", "intreference", "queue"}
)

func (b *pool) statement() {
	g := b.g
	top := b.depth == 0
	switch k := g.r.IntN(24); {
	case k < 4 && b.depth < deepest:
		b.construct(constructs[g.r.IntN(len(constructs))])
	case k < 7 && top && g.creating < maxResources:
		g.creating++
		s := b.put(&Stmt{Op: resources[g.r.IntN(len(resources))]})
		b.touch(s.ID)
	case k < 13:
		if r, ok := b.resource(); ok {
			b.touch(r)
			return
		}
		b.pure()
	case k == 13 && top:
		b.add("check", b.pick(Matrix))
	case k == 14 && g.r.IntN(6) == 0:
		b.add("wide", b.pick(Matrix))
	case k == 15 && top:
		b.add("input")
	default:
		b.pure()
	}
}

func (b *pool) pure() {
	op := pureKinds[b.g.r.IntN(len(pureKinds))]
	args := make([]int, len(pures[op].args))
	for i, t := range pures[op].args {
		args[i] = b.pick(t)
	}
	b.add(op, args...)
}

// resource picks a resource that the block may touch.
func (b *pool) resource() (int, bool) {
	var all []int
	for t := Variable; t <= Queue; t++ {
		if !b.functional || !t.ref() {
			all = append(all, b.values[t]...)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[b.g.r.IntN(len(all))], true
}

// opsOn returns the ops on each type of resource.
var opsOn = sync.OnceValue(func() map[Type][]string {
	ops := map[Type][]string{}
	for _, name := range slices.Sorted(maps.Keys(touchers)) {
		t := touchers[name].resource
		ops[t] = append(ops[t], name)
	}
	return ops
})

// touch adds one or a few ops on a resource.
func (b *pool) touch(resource int) {
	ops := opsOn()[b.g.f[resource]]
	for range 1 + b.g.r.IntN(2) {
		op := ops[b.g.r.IntN(len(ops))]
		if b.g.r.IntN(3) == 0 {
			switch b.g.f[resource] {
			case Reference:
				op = "late"
			case IntReference:
				op = "ilate"
			}
		}
		args := []int{resource}
		for _, t := range touchers[op].args {
			args = append(args, b.pick(t))
		}
		b.add(op, args...)
	}
}

// construct adds a conditional, loop or call.
func (b *pool) construct(op string) {
	g := b.g
	s := &Stmt{Op: op}
	blocks := 1
	switch op {
	case "cond", "if":
		s.Args, blocks = []int{b.pick(Scalar), b.pick(Scalar)}, 2
	case "case":
		s.Args, blocks = []int{b.pick(Int)}, 1+g.r.IntN(3)
	case "loop", "while":
		s.Args = []int{b.pick(Matrix)}
	}
	g.next++
	s.ID = g.next
	for range blocks {
		inner := &pool{g: g, values: map[Type][]int{}, depth: b.depth + 1, functional: b.functional || s.functional()}
		for t, list := range b.values {
			inner.values[t] = slices.Clone(list)
		}
		block := &Block{}
		if op == "loop" || op == "while" {
			block.Params = []int{g.next + 1, g.next + 2}
			g.next += 2
			g.f[block.Params[0]], g.f[block.Params[1]] = Int, Matrix
			inner.values[Int] = append(inner.values[Int], block.Params[0])
			inner.values[Matrix] = append(inner.values[Matrix], block.Params[1])
		}
		for range 1 + g.r.IntN(4) {
			inner.statement()
		}
		block.Result = inner.pick(Matrix)
		block.Stmts = inner.stmts
		s.Blocks = append(s.Blocks, block)
	}
	b.put(s)
}
