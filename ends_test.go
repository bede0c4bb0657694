package troupe

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// ending is how a run ends a resource that outlives it, and the error that the next run gets.
type ending struct {
	name string
	// run adds the steps that end the resource, and those of the next run, to a graph that both have. Files are in dir.
	run func(s *op.Scope, dir string) (ends, next []op.Runnable)
	// code and text are of the error that each step of the next run gets; without a code the step succeeds, and the text is logged.
	code status.Code
	text string
}

var (
	number  = []tensor.DType{tensor.Int64}
	scalars = []shape.Shape{shape.Scalar()}
)

// queueEnding returns the ending that closes a queue after it has had an element.
func queueEnding(kind string, make func(s *op.Scope, name attr.Attr) op.Output) ending {
	return ending{kind, func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		q := make(s, attr.SharedName(kind))
		types, elements := number, []op.Output{op.Const(s, int64(7))}
		if kind == "PriorityQueue" {
			types, elements = []tensor.DType{tensor.Int64, tensor.Int64}, append(elements, elements...)
		}
		enqueue, closes := op.QueueEnqueueV2(s, q, elements), op.QueueCloseV2(s, q)
		dequeue := op.QueueDequeueV2(s, q, types)[0]
		return []op.Runnable{enqueue, dequeue, closes}, []op.Runnable{dequeue, enqueue, closes, op.QueueDequeueManyV2(s, q, op.Const(s, int32(2)), types)[0]}
	}, 0, "closed"}
}

var endings = []ending{
	queueEnding("FIFOQueue", func(s *op.Scope, name attr.Attr) op.Output {
		return op.FIFOQueueV2(s, number, name, attr.Shapes(scalars))
	}),
	queueEnding("PaddingFIFOQueue", func(s *op.Scope, name attr.Attr) op.Output {
		return op.PaddingFIFOQueueV2(s, number, name, attr.Shapes(scalars))
	}),
	queueEnding("RandomShuffleQueue", func(s *op.Scope, name attr.Attr) op.Output {
		return op.RandomShuffleQueueV2(s, number, name, attr.Shapes(scalars))
	}),
	queueEnding("PriorityQueue", func(s *op.Scope, name attr.Attr) op.Output {
		return op.PriorityQueueV2(s, scalars, name, attr.ComponentTypes(number))
	}),
	{"Barrier", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		b := op.Barrier(s, number, attr.SharedName("b"), attr.Shapes(scalars))
		insert := op.BarrierInsertMany(s, b, op.Const(s, []string{"key"}), op.Const(s, []int64{7}), 0)
		_, keys, _ := op.BarrierTakeMany(s, b, op.Const(s, int32(1)), number)
		closes := op.BarrierClose(s, b)
		return []op.Runnable{insert, keys, closes}, []op.Runnable{keys, insert, closes}
	}, 0, "closed"},
	{"Iterator", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		it := op.IteratorV2(s, "it", "", number, scalars)
		begin, element := op.MakeIterator(s, range0(s, 1), it), op.IteratorGetNext(s, it, number, scalars)[0]
		return []op.Runnable{begin, element, element}, []op.Runnable{element, op.IteratorGetNextSync(s, it, number, scalars)[0]}
	}, status.OutOfRange, "reached"},
	{"MultiDeviceIterator", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		it := op.MultiDeviceIterator(s, []string{"/cpu:0"}, "multi", "", number, scalars)
		begin := op.MultiDeviceIteratorInit(s, range0(s, 1), it, op.Const(s, int64(1)))
		element := op.MultiDeviceIteratorGetNextFromShard(s, it, op.Const(s, int32(0)), op.Const(s, int64(1)), number, scalars)[0]
		return []op.Runnable{begin, element, element}, []op.Runnable{element}
	}, status.OutOfRange, "reached"},
	{"Table", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		table := op.HashTableV2(s, tensor.Int64, tensor.Int64, attr.SharedName("table"))
		fill := func(keys ...int64) op.Runnable {
			return op.InitializeTableV2(s, table, op.Const(s, keys), op.Const(s, keys))
		}
		return []op.Runnable{fill(1, 2)}, []op.Runnable{fill(1, 2, 3)}
	}, status.FailedPrecondition, "initialized"},
	{"TableOfFile", func(s *op.Scope, dir string) (ends, next []op.Runnable) {
		table := op.HashTableV2(s, tensor.String, tensor.Int64, attr.SharedName("words"))
		path := op.Const(s, filepath.Join(dir, "words"))
		write := func(words string) op.Runnable { return op.WriteFile(s, path, op.Const(s, words)) }
		fill := op.InitializeTableFromTextFileV2(s, table, path, -2, -1)
		return []op.Runnable{write("a\nb\n"), fill, write("a\nb\nc\n")}, []op.Runnable{fill}
	}, status.OK, "a table keeps the entries that it has"},
	{"Accumulator", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		a := op.ResourceConditionalAccumulator(s, tensor.Float32, shape.Scalar(), attr.SharedName("a"))
		apply := op.ResourceAccumulatorApplyGradient(s, a, op.Const(s, int64(0)), op.Const(s, float32(1)))
		take := op.ResourceAccumulatorTakeGradient(s, a, op.Const(s, int32(1)), tensor.Float32)
		// The next run's first gradient is of an earlier step than the accumulator's.
		return []op.Runnable{op.ResourceAccumulatorSetGlobalStep(s, a, op.Const(s, int64(300))), apply}, []op.Runnable{take}
	}, status.DeadlineExceeded, "has dropped 1 that were stale, of steps before 300"},
	{"AccumulatorStep", func(s *op.Scope, _ string) (ends, next []op.Runnable) {
		a := op.ResourceConditionalAccumulator(s, tensor.Float32, shape.Scalar(), attr.SharedName("b"))
		set := func(step int64) op.Runnable { return op.ResourceAccumulatorSetGlobalStep(s, a, op.Const(s, step)) }
		return []op.Runnable{set(300)}, []op.Runnable{set(0)}
	}, status.OK, "the step of an accumulator decreases"},
	{"SummaryWriter", func(s *op.Scope, dir string) (ends, next []op.Runnable) {
		w := op.SummaryWriter(s, attr.SharedName("w"))
		create := func(folder string) op.Runnable {
			return op.CreateSummaryFileWriter(s, w, op.Const(s, filepath.Join(dir, folder)), op.Const(s, int32(10)), op.Const(s, int32(1000)), op.Const(s, ""))
		}
		return []op.Runnable{create("first")}, []op.Runnable{create("second")}
	}, status.OK, "a summary writer writes to another folder than was asked for"},
	{"CacheFile", func(s *op.Scope, dir string) (ends, next []op.Runnable) {
		begin := func(name string) (begin, element op.Runnable) {
			it := op.IteratorV2(s, name, "", number, scalars)
			cached := op.CacheDataset(s, range0(s, 5), op.Const(s, filepath.Join(dir, "cache")), number, scalars)
			return op.MakeIterator(s, cached, it), op.IteratorGetNext(s, it, number, scalars)[0]
		}
		first, element := begin("first")
		second, other := begin("second")
		return []op.Runnable{first, element, second}, []op.Runnable{other}
	}, status.AlreadyExists, "Lockfile contents: Created at: "},
}

// range0 returns a dataset of the numbers from 0 to n-1.
func range0(s *op.Scope, n int64) op.Output {
	return op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, n), op.Const(s, int64(1)), number, scalars)
}

// whoAndWhen is how errors and logs name the step that ended something for later ones.
var whoAndWhen = regexp.MustCompile(`\d\S*s ago \(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\) by session [0-9a-f]{8} of /job:\w+/replica:0/task:0`)

// If a run has ended a resource, a step of the next run learns which one, which step ended it and when.
func TestSecondRunHearsOfTheFirst(t *testing.T) {
	parallel(t)
	var log logged
	server, err := NewLocalServer(t.Context(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(context.Background())
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			s := op.NewScope()
			ends, next := e.run(s, t.TempDir())
			def, err := s.GraphDef()
			if err != nil {
				t.Fatal(err)
			}
			run := func(step func(*Session)) {
				session, err := server.NewSession(t.Context(), def, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close(context.Background())
				step(session)
			}
			run(func(session *Session) {
				for i, end := range ends {
					_, err := session.Eval(t.Context(), nil, end)
					if err != nil && (i < len(ends)-1 || status.CodeOf(err) != status.OutOfRange) {
						t.Fatalf("step %d of the first run: %v", i, err)
					}
				}
			})
			run(func(session *Session) {
				for i, step := range next {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					before := len(log.String())
					_, err := session.Eval(ctx, nil, step)
					told := ""
					if err != nil {
						told = err.Error()
					}
					switch {
					case e.code == status.OK && err == nil && e.text != "closed":
						told = log.String()[before:]
					case err == nil, e.code != status.OK && status.CodeOf(err) != e.code:
						t.Errorf("step %d of the second run ended with %v, not %v", i, err, e.code)
					}
					if !strings.Contains(told, e.text) {
						t.Errorf("step %d of the second run was told %q, which does not say %q", i, told, e.text)
					}
					if byFile := e.name == "CacheFile" || strings.HasPrefix(e.name, "Accumulator"); !byFile && !whoAndWhen.MatchString(told) {
						t.Errorf("step %d of the second run was told %q, which does not say by whom and when", i, told)
					}
				}
			})
		})
	}
}

// A loop over elements that an earlier run has consumed ends with an error that says so. If the session itself reached the end, the loop
// just ends, as it does for an iterator that never had elements.
func TestElementsThatAFormerRunHasTaken(t *testing.T) {
	server, err := NewLocalServer(t.Context(), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(context.Background())
	s := op.NewScope()
	it := op.IteratorV2(s, "it", "", number, scalars)
	begin, element := op.MakeIterator(s, range0(s, 3), it), op.IteratorGetNext(s, it, number, scalars)[0]
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	loop := func(session *Session) (n int, last error) {
		for _, err := range session.Elements(t.Context(), element) {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	var sessions [2]*Session
	for i := range sessions {
		if sessions[i], err = server.NewSession(t.Context(), def, nil); err != nil {
			t.Fatal(err)
		}
		defer sessions[i].Close(context.Background())
	}
	if _, err := sessions[0].Eval(t.Context(), nil, begin); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 0} {
		if n, err := loop(sessions[0]); n != want || err != nil {
			t.Errorf("the first run has %d elements, then %v", n, err)
		}
	}
	if n, err := loop(sessions[1]); n != 0 || status.CodeOf(err) != status.OutOfRange || !whoAndWhen.MatchString(err.Error()) {
		t.Errorf("the second run has %d elements, then %v", n, err)
	}
	if _, err := sessions[1].Eval(t.Context(), nil, begin); err != nil {
		t.Fatal(err)
	}
	if n, err := loop(sessions[1]); n != 3 || err != nil {
		t.Errorf("begun anew, the second run has %d elements, then %v", n, err)
	}
}
