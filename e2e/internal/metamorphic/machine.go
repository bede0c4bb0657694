package metamorphic

// Machine interprets a program: its statements run one after the other, in the order of the list. Values that are read late from a
// reference are read where they are used.
type Machine struct {
	p     *Program
	f     *facts
	cells map[int]*cell
}

// NewMachine returns a machine whose resources have their initial contents.
func NewMachine(p *Program) *Machine {
	m := &Machine{p: p, f: learn(p), cells: map[int]*cell{}}
	for _, s := range p.Stmts {
		if _, ok := creators[s.Op]; ok {
			m.cells[s.ID] = firstContent(s)
		}
	}
	return m
}

// scratch returns a copy of the machine, whose changes do not affect m.
func (m *Machine) scratch() *Machine {
	cells := map[int]*cell{}
	for id, c := range m.cells {
		copied := *c
		cells[id] = &copied
	}
	return &Machine{m.p, m.f, cells}
}

// env holds the values of a block and of its enclosing blocks.
type env struct {
	outer  *env
	values map[int]Value
}

func (e *env) lookup(id int) (Value, bool) {
	for ; e != nil; e = e.outer {
		if v, ok := e.values[id]; ok {
			return v, true
		}
	}
	return Value{}, false
}

// step runs what the wanted statements need, with some values fed, and returns the wanted values.
func (m *Machine) step(wanted []int, fed map[int]Value) map[int]Value {
	isFed := map[int]bool{}
	e := &env{values: map[int]Value{}}
	for id, v := range fed {
		isFed[id] = true
		e.values[id] = v
	}
	out := map[int]Value{}
	for _, s := range m.f.closure(m.p, wanted, isFed) {
		if !isFed[s.ID] {
			e.values[s.ID] = m.eval(e, s)
		}
	}
	for _, id := range wanted {
		if v, ok := e.values[id]; ok {
			out[id] = v
		}
	}
	return out
}

// value returns an argument's current value.
func (m *Machine) value(e *env, id int, t Type) Value {
	v, ok := e.lookup(id)
	switch {
	case !ok || m.f.types[id] != t:
		return missing(t)
	case m.f.late(id):
		return m.cells[m.f.alias[id]].value
	}
	return v
}

func (f *facts) late(id int) bool {
	_, ok := f.alias[id]
	return ok
}

func (m *Machine) eval(e *env, s *Stmt) Value {
	if o := pures[s.Op]; o != nil {
		args := make([]Value, len(s.Args))
		for i, a := range s.Args {
			if args[i] = m.value(e, a, o.args[i]); m.f.narrow[s.ID] && o.args[i] != Int {
				args[i] = squash(args[i])
			}
		}
		return o.eval(s.Num, args)
	}
	if o := touchers[s.Op]; o != nil {
		return m.touch(e, s, o)
	}
	switch s.Op {
	case "check":
		return m.value(e, s.Args[0], Matrix)
	case "cond", "if":
		if m.value(e, s.Args[0], Scalar).F[0] < m.value(e, s.Args[1], Scalar).F[0] {
			return m.block(e, s.Blocks[0])
		}
		return m.block(e, s.Blocks[1])
	case "case":
		i := int(m.value(e, s.Args[0], Int).I)
		if i < 0 || i >= len(s.Blocks) {
			i = len(s.Blocks) - 1
		}
		return m.block(e, s.Blocks[i])
	case "call", "invoke":
		return m.block(e, s.Blocks[0])
	case "loop", "while":
		return m.loop(e, s)
	}
	return Value{} // a resource
}

// touch runs an op on a resource.
func (m *Machine) touch(e *env, s *Stmt, o *toucher) Value {
	if m.f.inert(s) {
		return missing(o.out)
	}
	args := make([]Value, len(o.args))
	for i, t := range o.args {
		if args[i] = m.value(e, s.Args[1+i], t); m.f.shrinks(s, i) {
			args[i] = squash(args[i])
		}
	}
	return o.eval(m.cells[s.Args[0]], s.Num, args)
}

// shrinks reports whether an op on a resource squashes an argument, since stored values must stay small.
func (f *facts) shrinks(s *Stmt, arg int) bool {
	const stored = 4 * smallSize
	id := s.Args[1+arg]
	return f.types[id] == Matrix && f.size(id) > stored
}

func (m *Machine) block(e *env, b *Block, params ...Value) Value {
	inner := &env{outer: e, values: map[int]Value{}}
	for i, p := range b.Params {
		inner.values[p] = params[i]
	}
	for _, st := range b.Stmts {
		inner.values[st.ID] = m.eval(inner, st)
	}
	v := m.value(inner, b.Result, Matrix)
	if m.f.squashes(b) {
		v = squash(v)
	}
	return v
}

// squashes reports whether a block squashes its result.
func (f *facts) squashes(b *Block) bool {
	return f.late(b.Result) || f.size(b.Result) > smallSize
}

// The parts of a loop's Num.
const (
	iterationsMask = 3 // the most iterations
	untilFlag      = 4 // it ends when the sum of its state is at least untilSum
	arrayFlag      = 8 // the states are also written into a TensorArray, and summed up after the loop
	untilSum       = 5
)

func (m *Machine) loop(e *env, s *Stmt) Value {
	state := m.value(e, s.Args[0], Matrix)
	written := matrixOf(make([]float32, Side*Side))
	add := func(x, y float32) float32 { return x + y }
	for i := 0; i < s.Num&iterationsMask; i++ {
		if s.Num&untilFlag != 0 && total(state.F) >= untilSum {
			break
		}
		state = m.block(e, s.Blocks[0], intOf(int32(i)), state)
		written = both(written, state, add)
	}
	if s.Num&arrayFlag != 0 && s.Op == "loop" {
		return both(state, written, add)
	}
	return state
}
