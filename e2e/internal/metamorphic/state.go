package metamorphic

import "slices"

// toucher is an op on a resource, which is its first argument. It computes with the resource's content, and may change it.
type toucher struct {
	resource      Type
	args          []Type // after the resource
	out           Type
	reads, writes bool
	// late reports whether the result is the reference, which is read where it is used.
	late bool
	eval func(c *cell, num int, a []Value) Value
	draw func(d *drawing, handle string, a []string) string
}

// cell is a resource's content.
type cell struct {
	value Value
	queue []Value
}

// touchers are all ops on resources, by name.
var touchers map[string]*toucher

func init() {
	matrix, integer := []Type{Matrix}, []Type{Int}
	set := func(f func(have, v Value) Value) func(c *cell, _ int, a []Value) Value {
		return func(c *cell, _ int, a []Value) Value {
			c.value = f(c.value, a[0])
			return c.value
		}
	}
	replaced := set(func(_, v Value) Value { return v })
	added := set(func(have, v Value) Value {
		if v.Type == Int {
			return intOf(have.I + v.I)
		}
		return both(have, v, func(x, y float32) float32 { return x + y })
	})
	taken := set(func(have, v Value) Value { return both(have, v, func(x, y float32) float32 { return x - y }) })
	content := func(c *cell, _ int, _ []Value) Value { return c.value }
	counted := func(c *cell, _ int, _ []Value) Value {
		before := c.value
		c.value = intOf(before.I + 1)
		return before
	}
	scattered := func(f func(x, y float32) float32) func(c *cell, num int, a []Value) Value {
		return func(c *cell, num int, a []Value) Value {
			m := slices.Clone(c.value.F)
			for _, row := range rowsOf(num) {
				for j := range Side {
					m[row*Side+j] = f(m[row*Side+j], a[0].F[row*Side+j])
				}
			}
			c.value = matrixOf(m)
			return c.value
		}
	}
	scatterAdd := scattered(func(x, y float32) float32 { return x + y })
	scatterUpdate := scattered(func(_, y float32) float32 { return y })
	// Ops on resource variables.
	read := func(t Type) func(d *drawing, handle string, _ []string) string {
		return func(d *drawing, handle string, _ []string) string {
			return d.on(handle, "ReadVariableOp", attrs{"dtype": dtype(t)})
		}
	}
	change := func(op string, t Type) func(d *drawing, handle string, a []string) string {
		return func(d *drawing, handle string, a []string) string {
			return d.on(handle, op, attrs{"dtype": dtype(t)}, a...)
		}
	}
	scatter := func(op, kind string) func(d *drawing, handle string, a []string) string {
		return func(d *drawing, handle string, a []string) string {
			rows := d.rows()
			part := d.node("GatherV2", attrs{"Tparams": dtype(Matrix), "Tindices": dtype(Int), "Taxis": dtype(Int), "batch_dims": number(0)}, a[0], rows, d.constant(intOf(0)))
			return d.on(handle, op, attrs{kind: dtype(Matrix), "Tindices": dtype(Int)}, rows, part)
		}
	}
	// Ops on references.
	late := func(t Type) func(d *drawing, handle string, _ []string) string {
		return func(d *drawing, handle string, _ []string) string {
			return d.reference(handle, "Identity", attrs{"T": dtype(t)})
		}
	}
	copied := func(t Type, least Value) func(d *drawing, handle string, _ []string) string {
		return func(d *drawing, handle string, _ []string) string {
			return d.on(handle, "Maximum", attrs{"T": dtype(t)}, d.constant(least))
		}
	}
	assign := func(op string, t Type) func(d *drawing, handle string, a []string) string {
		return func(d *drawing, handle string, a []string) string {
			return d.on(handle, op, attrs{"T": dtype(t), "use_locking": flag(d.s.Num&1 == 0 || t == Int)}, a...)
		}
	}
	touchers = map[string]*toucher{
		"read":           {Variable, nil, Matrix, true, false, false, content, read(Matrix)},
		"assign":         {Variable, matrix, None, false, true, false, replaced, change("AssignVariableOp", Matrix)},
		"assignadd":      {Variable, matrix, None, false, true, false, added, change("AssignAddVariableOp", Matrix)},
		"assignsub":      {Variable, matrix, None, false, true, false, taken, change("AssignSubVariableOp", Matrix)},
		"scatteradd":     {Variable, matrix, None, false, true, false, scatterAdd, scatter("ResourceScatterAdd", "dtype")},
		"scatterupdate":  {Variable, matrix, None, false, true, false, scatterUpdate, scatter("ResourceScatterUpdate", "dtype")},
		"late":           {Reference, nil, Matrix, false, false, true, content, late(Matrix)},
		"copy":           {Reference, nil, Matrix, true, false, false, content, copied(Matrix, scalarOf(least))},
		"rassign":        {Reference, matrix, Matrix, false, true, true, replaced, assign("Assign", Matrix)},
		"rassignadd":     {Reference, matrix, Matrix, false, true, true, added, assign("AssignAdd", Matrix)},
		"rassignsub":     {Reference, matrix, Matrix, false, true, true, taken, assign("AssignSub", Matrix)},
		"rscatteradd":    {Reference, matrix, Matrix, false, true, true, scatterAdd, scatter("ScatterAdd", "T")},
		"rscatterupdate": {Reference, matrix, Matrix, false, true, true, scatterUpdate, scatter("ScatterUpdate", "T")},
		"iread":          {IntVariable, nil, Int, true, false, false, content, read(Int)},
		"iassign":        {IntVariable, integer, None, false, true, false, replaced, change("AssignVariableOp", Int)},
		"iassignadd":     {IntVariable, integer, None, false, true, false, added, change("AssignAddVariableOp", Int)},
		"ilate":          {IntReference, nil, Int, false, false, true, content, late(Int)},
		"icopy":          {IntReference, nil, Int, true, false, false, content, copied(Int, intOf(-1<<31))},
		"irassign":       {IntReference, integer, Int, false, true, true, replaced, assign("Assign", Int)},
		"irassignadd":    {IntReference, integer, Int, false, true, true, added, assign("AssignAdd", Int)},
		"countupto": {IntReference, nil, Int, true, true, false, counted, func(d *drawing, handle string, _ []string) string {
			return d.on(handle, "CountUpTo", attrs{"T": dtype(Int), "limit": number(1<<31 - 1)})
		}},
		"cycle": {Queue, matrix, Matrix, true, true, false, func(c *cell, _ int, a []Value) Value {
			first := append(c.queue, a[0])[0]
			c.queue = append(slices.Clone(c.queue), a[0])[1:]
			return first
		}, func(d *drawing, handle string, a []string) string {
			put := d.on(handle, "QueueEnqueueV2", attrs{"Tcomponents": typeList(Matrix)}, a...)
			return d.on(handle, "QueueDequeueV2", attrs{"component_types": typeList(Matrix)}, "^"+put)
		}},
	}
}

// least is less than all computed numbers.
const least = -largest * 2

// rowsOf returns the two different rows of a matrix that a scatter changes.
func rowsOf(num int) []int { return []int{num % Side, (num + 1 + num/Side%2) % Side} }

// commutes reports whether runs of an op may come in any order.
func commutes(op string) bool { return op == "iassignadd" || op == "irassignadd" }

// firstContent returns the initial content of a resource.
func firstContent(s *Stmt) *cell {
	switch s.Out() {
	case IntVariable, IntReference:
		return &cell{value: plainValue(Int, s.Num)}
	case Queue:
		return &cell{queue: []Value{plainValue(Matrix, s.Num), plainValue(Matrix, s.Num+1)}}
	default:
		return &cell{value: plainValue(Matrix, s.Num)}
	}
}
