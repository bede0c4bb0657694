//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	opdefpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// attack is what a hostile client does until its time is over. Errors of single attempts are expected; the next attempt follows.
type attack func(ctx context.Context, a *attacker) error

// attacker counts the attempts of an attack.
type attacker struct {
	address  string
	attempts atomic.Int64
}

var hostileAttacks = map[string]attack{
	"nothing":                       idle,
	"many streams that claim 2 GiB": claimingStreams,
	"rapid reset": frames(func(f *http2.Framer, n uint32, block []byte) error {
		return either(headers(f, n, block), f.WriteRSTStream(n, http2.ErrCodeCancel))
	}),
	"settings":             frames(func(f *http2.Framer, _ uint32, _ []byte) error { return f.WriteSettings() }),
	"pings":                frames(func(f *http2.Framer, _ uint32, _ []byte) error { return f.WritePing(false, [8]byte{}) }),
	"window updates":       frames(func(f *http2.Framer, _ uint32, _ []byte) error { return f.WriteWindowUpdate(0, 1) }),
	"priorities":           frames(func(f *http2.Framer, n uint32, _ []byte) error { return f.WritePriority(n, http2.PriorityParam{}) }),
	"unknown frames":       frames(func(f *http2.Framer, n uint32, _ []byte) error { return f.WriteRawFrame(0xEE, 0, n, nil) }),
	"continuations":        continuations,
	"one byte in a frame":  tinyData,
	"large headers":        largeHeaders,
	"slow bytes":           drip,
	"connections":          connections,
	"half-open calls":      halfOpen,
	"claims of tensors":    tensorClaims,
	"constants of 2^36":    eachGraph(constantClaims),
	"memory by ops":        eachGraph(memoryBombs),
	"a chain of functions": eachGraph(functionChain),
	"a wide graph":         eachGraph(wideNodes),
	"endless loops":        endlessLoops,
	"blocked dequeues":     blockedDequeues,
	"sessions that stay":   sessionsThatStay,
	"strangers' links":     strangersLinks,
	"functions that wait":  eachGraph(waitingFunctions),
	"calls that wait":      waitingCalls,
	"looks":                manyLooks,
}

// hostileNames returns the attacks in the order in which they run.
func hostileNames() []string {
	names := slices.Sorted(maps.Keys(hostileAttacks))
	return slices.DeleteFunc(names, func(n string) bool { return n == "nothing" })
}

// playHostile is an attacking process.
func playHostile() error {
	d, err := time.ParseDuration(os.Getenv(hostileTime))
	if err != nil {
		return err
	}
	f := hostileAttacks[os.Getenv(hostileAttack)]
	if f == nil {
		return fmt.Errorf("there is no attack %q", os.Getenv(hostileAttack))
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	a := &attacker{address: os.Getenv(hostileTarget)}
	var last error
	for ctx.Err() == nil {
		if err := f(ctx, a); err != nil {
			last = err
		}
	}
	text := ""
	if last != nil {
		text = strings.NewReplacer("\n", " ", "|", "/").Replace(fmt.Sprintf("; the last: %.120v", last))
	}
	fmt.Printf("%d%s\n", a.attempts.Load(), text)
	os.Exit(0)
	return nil
}

func idle(ctx context.Context, _ *attacker) error {
	<-ctx.Done()
	return nil
}

func either(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// hostileConn opens a connection on which anything can be written; input is read and discarded.
func (a *attacker) hostileConn(ctx context.Context) (net.Conn, *http2.Framer, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.address)
	if err != nil {
		return nil, nil, err
	}
	if d, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(d); err != nil {
			return nil, nil, err
		}
	}
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, nil, err
	}
	f := http2.NewFramer(c, nil)
	if err := f.WriteSettings(); err != nil {
		return nil, nil, err
	}
	go func() { // ends with the connection
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
	return c, f, nil
}

// requestHeaders returns the header block of a call that is the first on its connection, or does not use the dynamic table.
func requestHeaders(method string, more ...hpack.HeaderField) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "x"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, more...) {
		_ = e.WriteField(f) // into memory
	}
	return b.Bytes()
}

const runStepMethod = "/tensorflow.MasterService/RunStep"

func headers(f *http2.Framer, stream uint32, block []byte) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true})
}

// frames floods a connection with frames until the server closes it.
func frames(write func(f *http2.Framer, stream uint32, block []byte) error) attack {
	return func(ctx context.Context, a *attacker) error {
		c, f, err := a.hostileConn(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		block := requestHeaders(runStepMethod)
		for n := uint32(1); n < 1<<30 && ctx.Err() == nil; n += 2 {
			if err := write(f, n, block); err != nil {
				return err
			}
			a.attempts.Add(1)
		}
		return nil
	}
}

func claimingStreams(ctx context.Context, a *attacker) error {
	piece := append(prefix(2<<30-1), make([]byte, 16<<10-5)...)
	for range 8 {
		c, f, err := a.hostileConn(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		block := requestHeaders(runStepMethod)
		for n := uint32(1); n < 2*1024 && ctx.Err() == nil; n += 2 {
			if err := either(headers(f, n, block), f.WriteData(n, false, piece)); err != nil {
				return err
			}
			a.attempts.Add(1)
		}
	}
	<-ctx.Done()
	return nil
}

func continuations(ctx context.Context, a *attacker) error {
	c, f, err := a.hostileConn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders(runStepMethod)}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := f.WriteContinuation(1, false, nil); err != nil {
			return err
		}
		a.attempts.Add(1)
	}
	return nil
}

func tinyData(ctx context.Context, a *attacker) error {
	c, f, err := a.hostileConn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := either(headers(f, 1, requestHeaders(runStepMethod)), f.WriteData(1, false, prefix(1<<20))); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := f.WriteData(1, false, []byte{0}); err != nil {
			return err
		}
		a.attempts.Add(1)
	}
	return nil
}

func largeHeaders(ctx context.Context, a *attacker) error {
	c, f, err := a.hostileConn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	block := requestHeaders(runStepMethod, hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 15_000)})
	for n := uint32(1); n < 1<<30 && ctx.Err() == nil; n += 2 {
		if err := either(headers(f, n, block), f.WriteData(n, true, prefix(0))); err != nil {
			return err
		}
		a.attempts.Add(1)
	}
	return nil
}

// drip keeps calls open by sending a byte now and then.
func drip(ctx context.Context, a *attacker) error {
	c, f, err := a.hostileConn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	block := requestHeaders(runStepMethod)
	for n := uint32(1); n < 2*1000; n += 2 {
		if err := either(headers(f, n, block), f.WriteData(n, false, prefix(1<<30))); err != nil {
			return err
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := uint32(1); ; n = (n + 2) % 2000 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := f.WriteData(n|1, false, []byte{0}); err != nil {
			return err
		}
		a.attempts.Add(1)
	}
}

// connections opens as many connections as it may, and keeps them open.
func connections(ctx context.Context, a *attacker) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for len(open) < 10_000 && ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.address)
		if err != nil {
			<-ctx.Done()
			return err
		}
		open = append(open, c)
		a.attempts.Add(1)
	}
	<-ctx.Done()
	return nil
}

// halfOpen begins calls and sends nothing more.
func halfOpen(ctx context.Context, a *attacker) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	block := requestHeaders(runStepMethod)
	for len(open) < 100 && ctx.Err() == nil {
		c, f, err := a.hostileConn(ctx)
		if err != nil {
			return err
		}
		open = append(open, c)
		for n := uint32(1); n < 200; n += 2 {
			if err := headers(f, n, block); err != nil {
				return err
			}
			a.attempts.Add(1)
		}
	}
	<-ctx.Done()
	return nil
}

func shapeOf(dims ...int64) *shapepb.TensorShapeProto {
	s := &shapepb.TensorShapeProto{}
	for _, d := range dims {
		s.Dim = append(s.Dim, &shapepb.TensorShapeProto_Dim{Size: d})
	}
	return s
}

// claims returns small messages that claim to be large tensors.
func claims() []*tensorpb.TensorProto {
	return []*tensorpb.TensorProto{
		{Dtype: typespb.DataType_DT_STRING, TensorShape: shapeOf(1 << 31)},
		{Dtype: typespb.DataType_DT_RESOURCE, TensorShape: shapeOf(1 << 31)},
		{Dtype: typespb.DataType_DT_VARIANT, TensorShape: shapeOf(1 << 31)},
		{Dtype: float, TensorShape: shapeOf(1 << 32), FloatVal: []float32{1}},
		{Dtype: float, TensorShape: shapeOf(1<<16, 1<<20), FloatVal: []float32{1}},
		{Dtype: typespb.DataType_DT_STRING, TensorShape: shapeOf(1 << 28), StringVal: [][]byte{[]byte("x")}},
	}
}

// tensorClaims feeds them to a session that exists and to one that does not.
func tensorClaims(ctx context.Context, a *attacker) error {
	c, err := client.Dial(ctx, "grpc://"+a.address)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	raw, err := net.Dial("tcp", a.address)
	if err != nil {
		return err
	}
	raw.Close()
	var last error
	for _, p := range claims() {
		g := graphOf(placeholder("x", "", p.Dtype), with(node("y", "Identity", p.Dtype, "x"), "T", dtypeAttr(p.Dtype)))
		s, err := c.NewSession(ctx, g, nil)
		if err != nil {
			return err
		}
		for _, handle := range []string{"no such session", s.Handle()} {
			b, err := proto.Marshal(&corepb.RunStepRequest{SessionHandle: handle, Feed: []*corepb.NamedTensorProto{{Name: "x:0", Tensor: p}}, Fetch: []string{"y:0"}})
			if err != nil {
				return err
			}
			if err := a.post(ctx, runStepMethod, b); err != nil {
				last = err
			}
		}
		if err := s.Close(ctx); err != nil {
			return err
		}
	}
	return last
}

// post sends one call on a connection of its own and waits until the server has answered, or a second.
func (a *attacker) post(ctx context.Context, method string, message []byte) error {
	a.attempts.Add(1)
	c, f, err := a.hostileConn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return either(headers(f, 1, requestHeaders(method)), f.WriteData(1, true, append(prefix(uint32(len(message))), message...)))
}

// eachGraph opens a session with each of some graphs, and runs its node "y".
func eachGraph(graphs func() ([]*graphpb.GraphDef, error)) attack {
	made := sync.OnceValues(graphs)
	return func(ctx context.Context, a *attacker) error {
		all, err := made()
		if err != nil {
			return err
		}
		c, err := client.Dial(ctx, "grpc://"+a.address)
		if err != nil {
			return err
		}
		defer c.Close(context.Background())
		var last error
		for _, g := range all {
			if ctx.Err() != nil {
				break
			}
			a.attempts.Add(1)
			s, err := c.NewSession(ctx, g, nil)
			if err != nil {
				last = err
				continue
			}
			bound, cancel := context.WithTimeout(ctx, 5*time.Second)
			out, err := s.Run(bound, nil, nil, []string{"y"})
			cancel()
			if err != nil {
				last = err
			}
			for _, t := range out {
				t.Release()
			}
			if err := s.Close(context.Background()); err != nil {
				return err
			}
		}
		return last
	}
}

func constantClaims() (all []*graphpb.GraphDef, err error) {
	for _, p := range claims() {
		all = append(all, graphOf(constant("c", p.Dtype, p), with(node("y", "Identity", p.Dtype, "c"), "T", dtypeAttr(p.Dtype))))
	}
	return all, nil
}

// memoryBombs returns small graphs with large results.
func memoryBombs() (all []*graphpb.GraphDef, err error) {
	for _, bomb := range []func(s *op.Scope) op.Output{
		func(s *op.Scope) op.Output { return op.Fill(s, op.Const(s, []int64{1 << 33}), op.Const(s, float32(1))) },
		func(s *op.Scope) op.Output { return op.Fill(s, op.Const(s, []int64{1 << 31}), op.Const(s, "text")) },
		func(s *op.Scope) op.Output {
			return op.Tile(s, op.Const(s, []float32{1, 2}), op.Const(s, []int64{1 << 32}))
		},
		func(s *op.Scope) op.Output {
			return op.Pad(s, op.Const(s, []float32{1}), op.Const(s, [][]int64{{1 << 32, 1 << 32}}))
		},
		func(s *op.Scope) op.Output {
			return op.Range(s, op.Const(s, int64(0)), op.Const(s, int64(1)<<40), op.Const(s, int64(1)))
		},
		func(s *op.Scope) op.Output {
			text := op.Const(s, strings.Repeat("x", 1<<16))
			for range 16 {
				text = op.StringJoin(s, []op.Output{text, text, text, text})
			}
			return text
		},
		func(s *op.Scope) op.Output {
			return op.OneHot(s, op.Const(s, []int64{1, 2, 3}), op.Const(s, int32(1<<31-1)), op.Const(s, float32(1)), op.Const(s, float32(0)))
		},
		func(s *op.Scope) op.Output {
			dims := op.Const(s, []int64{1 << 30, 1})
			return op.SparseMatrixNNZ(s, op.SparseTensorToCSRSparseMatrix(s, op.Const(s, [][]int64{{0, 0}}), op.Const(s, []float32{1}), dims))
		},
		func(s *op.Scope) op.Output {
			return op.BroadcastTo(s, op.Const(s, float32(1)), op.Const(s, []int64{1 << 20, 1 << 16}))
		},
		func(s *op.Scope) op.Output {
			return op.TensorListReserve(s, op.Const(s, []int32{}), op.Const(s, int32(1<<31-1)), tensor.Float32)
		},
		func(s *op.Scope) op.Output {
			side := op.Fill(s, op.Const(s, []int64{1 << 12, 1 << 12}), op.Const(s, float32(1)))
			sum := side
			for range 40 { // each is as large as the first, and all are kept
				sum = op.AddV2(s, op.Identity(s, sum), side)
			}
			return op.Concat(s, op.Const(s, int32(0)), []op.Output{sum, side, sum, side, sum, side, sum, side, sum, side, sum, side, sum, side, sum, side, sum, side, sum, side})
		},
	} {
		s := op.NewScope()
		out := bomb(s)
		if err := s.Err(); err != nil {
			return nil, err
		}
		op.NoOp(s.WithControlDependencies(out.Op).WithName("y"))
		g, err := s.GraphDef()
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// functionChain returns a graph with functions each of which calls the next one.
func functionChain() ([]*graphpb.GraphDef, error) {
	const length = 20_000
	identity := func(name, op string) *nodepb.NodeDef {
		n := node(name, op, 0, "x")
		if op == "Identity" {
			n.Attr["T"] = dtypeAttr(float)
		}
		return n
	}
	library := &functionpb.FunctionDefLibrary{}
	for i := range length {
		op := "Identity"
		if i+1 < length {
			op = fmt.Sprint("f", i+1)
		}
		library.Function = append(library.Function, &functionpb.FunctionDef{
			Signature: &opdefpb.OpDef{Name: fmt.Sprint("f", i), InputArg: []*opdefpb.OpDef_ArgDef{{Name: "x", Type: float}}, OutputArg: []*opdefpb.OpDef_ArgDef{{Name: "y", Type: float}}},
			NodeDef:   []*nodepb.NodeDef{identity("n", op)},
			Ret:       map[string]string{"y": map[bool]string{true: "n:output:0", false: "n:y:0"}[op == "Identity"]},
		})
	}
	g := graphOf(two(), node("y", "f0", 0, "two"))
	g.Library = library
	return []*graphpb.GraphDef{g}, nil
}

// waitingFunctions returns a graph with functions each of which calls the next one twice. The last one dequeues from a queue that stays empty.
func waitingFunctions() ([]*graphpb.GraphDef, error) {
	const depth = 26
	s := op.NewScope()
	q := op.NewFIFOQueue(s, []tensor.DType{tensor.Float32})
	out := q.Dequeue(s)
	waits, err := s.GraphDef()
	if err != nil {
		return nil, err
	}
	for _, n := range waits.Node {
		for i, in := range n.Input {
			n.Input[i] = in + ":handle:0"
		}
	}
	library := &functionpb.FunctionDefLibrary{}
	add := func(i int, result string, nodes ...*nodepb.NodeDef) {
		library.Function = append(library.Function, &functionpb.FunctionDef{Ret: map[string]string{"y": result}, NodeDef: nodes, Signature: &opdefpb.OpDef{Name: fmt.Sprint("f", i), IsStateful: true,
			InputArg: []*opdefpb.OpDef_ArgDef{{Name: "x", Type: float}}, OutputArg: []*opdefpb.OpDef_ArgDef{{Name: "y", Type: float}}}})
	}
	add(depth, out[0].Op.Name()+":components:0", waits.Node...)
	for i := range depth {
		next := fmt.Sprint("f", i+1)
		add(i, "sum:z:0", node("a", next, 0, "x"), node("minus", "Neg", float, "x"), node("b", next, 0, "minus:y:0"), node("sum", "AddV2", float, "a:y:0", "b:y:0"))
	}
	g := graphOf(two(), node("y", "f0", 0, "two"))
	g.Library = library
	return []*graphpb.GraphDef{g}, nil
}

// waitingCalls sends one step that waits again and again, over many connections.
func waitingCalls(ctx context.Context, a *attacker) error {
	s := op.NewScope()
	out := op.NewFIFOQueue(s, []tensor.DType{tensor.Float32}).Dequeue(s)
	g, err := s.GraphDef()
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, "grpc://"+a.address)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	session, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return err
	}
	b, err := proto.Marshal(&corepb.RunStepRequest{SessionHandle: session.Handle(), Target: []string{out[0].Op.Name()}, RequestId: 1})
	if err != nil {
		return err
	}
	block := requestHeaders(runStepMethod)
	for range 20 {
		c, f, err := a.hostileConn(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		for n := uint32(1); n < 4000; n += 2 {
			if err := either(headers(f, n, block), f.WriteData(n, true, append(prefix(uint32(len(b))), b...))); err != nil {
				return err
			}
			a.attempts.Add(1)
		}
	}
	<-ctx.Done()
	return session.Close(context.Background())
}

// manyLooks looks at the server's tasks, in many calls at a time, while it has many sessions.
func manyLooks(ctx context.Context, a *attacker) error {
	c, err := client.Dial(ctx, "grpc://"+a.address)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for range 200 {
		if _, err := c.NewSession(ctx, graphOf(two()), nil); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	errs := make([]error, 300)
	for i := range errs {
		all.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				a.attempts.Add(1)
				_, errs[i] = c.See(ctx, &client.Query{Cluster: true, Detail: true, Limit: 1 << 14})
			}
		})
	}
	all.Wait()
	return errs[0]
}

func wideNodes() ([]*graphpb.GraphDef, error) {
	g := graphOf(two())
	for i := range 300_000 {
		g.Node = append(g.Node, node(fmt.Sprint("n", i), "Identity", float, "two"))
	}
	last := node("y", "NoOp", 0)
	for i := range 300_000 {
		last.Input = append(last.Input, fmt.Sprint("^n", i))
	}
	g.Node = append(g.Node, last)
	return []*graphpb.GraphDef{g}, nil
}

// endlessLoops runs endless loops in several sessions until they are cancelled.
func endlessLoops(ctx context.Context, a *attacker) error {
	s := op.NewScope()
	out := op.While(s, []op.Output{op.Const(s, float32(0))},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, op.Const(s, float32(-1)), v[0]) },
		func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{op.AddV2(s, v[0], op.Const(s, float32(1)))}
		})
	g, err := s.GraphDef()
	if err != nil {
		return err
	}
	return a.together(ctx, 8, g, out[0].Op.Name(), 3*time.Second)
}

// together runs steps of one graph concurrently, each for a while.
func (a *attacker) together(ctx context.Context, n int, g *graphpb.GraphDef, target string, d time.Duration) error {
	c, err := client.Dial(ctx, "grpc://"+a.address)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	s, err := c.NewSession(ctx, g, nil)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			a.attempts.Add(1)
			_, errs[i] = s.Run(ctx, nil, nil, []string{target})
		})
	}
	all.Wait()
	return either(errs[0], s.Close(context.Background()))
}

func blockedDequeues(ctx context.Context, a *attacker) error {
	s := op.NewScope()
	q := op.NewFIFOQueue(s, []tensor.DType{tensor.Float32})
	out := q.Dequeue(s)
	g, err := s.GraphDef()
	if err != nil {
		return err
	}
	return a.together(ctx, 10_000, g, out[0].Op.Name(), 10*time.Second)
}

// sessionsThatStay opens sessions, each with 16 MiB, and never closes one.
func sessionsThatStay(ctx context.Context, a *attacker) error {
	value := &tensorpb.TensorProto{Dtype: float, TensorShape: shapeOf(4 << 20), TensorContent: make([]byte, 16<<20)}
	c, err := client.Dial(ctx, "grpc://"+a.address)
	if err != nil {
		return err
	}
	defer c.Close(context.Background())
	for ctx.Err() == nil {
		a.attempts.Add(1)
		s, err := c.NewSession(ctx, graphOf(constant("c", float, value), node("y", "Identity", float, "c")), nil)
		if err != nil {
			return err
		}
		if _, err := s.Run(ctx, nil, nil, []string{"y"}); err != nil {
			return err
		}
	}
	return nil
}

// strangersLinks opens streams of links that begin with arbitrary messages.
func strangersLinks(ctx context.Context, a *attacker) error {
	for _, method := range []string{"/remote.Remoting/Receive", "/troupe.v1.Link/Bulk"} {
		for _, first := range [][]byte{nil, []byte("hello"), make([]byte, 100), bytes.Repeat([]byte{0xff}, 1000)} {
			if err := a.post(ctx, method, first); err != nil {
				return err
			}
		}
	}
	return nil
}
