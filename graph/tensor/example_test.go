package tensor_test

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Convert between Go values and tensors.
func ExampleFrom() {
	t, err := tensor.From([][]int32{{1, 2, 3}, {4, 5, 6}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Release()
	fmt.Println(t.DType(), t.Shape())

	rows, err := tensor.To[[][]int32](t)
	fmt.Println(rows[1], err)

	_, err = tensor.From([][]int32{{1, 2, 3}, {4}})
	fmt.Println(err)
	// Output:
	// int32 [2,3]
	// [4 5 6] <nil>
	// A ragged value is not a tensor: [1] has 1 elements, where [0] has 3
}

// Wrap uses a slice as a tensor without a copy. The memory returns to the program after the last release.
func ExampleWrap() {
	pixels := make([]uint8, 28*28)
	t, err := tensor.Wrap(pixels, func() { fmt.Println("the pixels are mine again") }, 28, 28)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Shape())
	t.Release()
	// Output:
	// [28,28]
	// the pixels are mine again
}
