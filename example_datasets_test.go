package troupe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// An input pipeline runs where its ops are placed. Its elements are a sequence.
func Example_dataset() {
	ctx := context.Background()
	server, err := troupe.NewLocalServer(ctx, quiet)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop(ctx)

	s := op.NewScope()
	types := []tensor.DType{tensor.Int64}
	numbers, batches := []shape.Shape{shape.Scalar()}, []shape.Shape{shape.Of(-1)}
	dataset := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(5)), op.Const(s, int64(1)), types, numbers)
	dataset = op.BatchDatasetV2(s, dataset, op.Const(s, int64(2)), op.Const(s, false), types, batches)
	iterator := op.IteratorV2(s, "input", "", types, batches)
	begin := op.MakeIterator(s, dataset, iterator)
	batch := op.IteratorGetNext(s, iterator, types, batches)[0]
	def, err := s.GraphDef()
	if err != nil {
		log.Fatal(err)
	}
	session, err := server.NewSession(ctx, def, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	if _, err := session.Eval(ctx, nil, begin); err != nil {
		log.Fatal(err)
	}
	for element, err := range session.Elements(ctx, batch) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tensor.Of[int64](element[0]))
	}
	// Output:
	// [0 1]
	// [2 3]
	// [4]
}
