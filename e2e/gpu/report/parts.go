package main

import "time"

// withoutLibrary names a cuBLAS that does not exist, so that products use Troupe's own functions.
const withoutLibrary = "TROUPE_LIBCUBLAS=/nonexistent/libcublas.so"

// exact forbids TF32 in Troupe and in cuBLAS.
const exact = "NVIDIA_TF32_OVERRIDE=0"

// parts are the parts of the report, in order.
var parts = []part{
	{name: "card", run: describeCard},
	{name: "load", run: load},
	{
		name: "tests", title: "Tests", limit: 9 * time.Minute, run: runTests,
		about: "The tests of kernels and devices, on the card. Those of kernels compare each op's row for GPUs with the tables of the CPU's.",
	}, {
		name: "products", title: "Matrix products", limit: 75 * time.Second, run: products,
		variants: []variant{{name: cublas}, {name: own, env: []string{withoutLibrary}}},
		about: "Chains of products of square matrices on the card, by cuBLAS and by Troupe's own functions. The percentage is of what the card's processors do at " +
			"their highest clock, for the way that the type is multiplied; float32 is multiplied as TF32 on cards that can.",
	}, {
		name: "exact", title: "Products of float32 without TF32", limit: 60 * time.Second, run: exactProducts,
		variants: []variant{{name: cublas, env: []string{exact}}, {name: own, env: []string{withoutLibrary, exact}}},
		about:    "The same with `NVIDIA_TF32_OVERRIDE=0`.",
	}, {
		name: "accuracy", title: "Accuracy of products", limit: time.Minute, run: accuracy,
		variants: []variant{{name: cublas}, {name: own, env: []string{withoutLibrary}}},
		about:    "The largest error of a product of matrices of numbers in [-1, 1), by the largest result. The CPU computes the right result in float64.",
	}, {
		name: "elementwise", title: "Operations that wait for memory", limit: time.Minute, run: elementwise,
		about: "Chains of one operation over float32. The percentage is of what the card's memory does at its highest clock. What fits the card's cache may exceed it.",
	}, {
		name: "convolutions", title: "Convolutions", limit: 90 * time.Second, run: convolutions,
		about: "Layers of ResNet-50, and their gradients, by Troupe's own functions. The percentage is as for products.",
	}, {
		name: "launches", title: "Launches and steps", limit: time.Minute, run: launches,
		about: "What it costs to have something done that takes no time.",
	}, {
		name: "transfers", title: "Transfers", limit: 75 * time.Second, run: transfers,
		about: "Between the host's memory and the card's. The driver copies pinned memory directly, and pageable memory by way of its own.",
	}, {
		name: "training", title: "Training", limit: 75 * time.Second, run: training,
		about: "Steps of training with batches that are fed from the host, on the card and on the CPUs of the machine.",
	}, {
		name: "loss", title: "Loss and return of a context", limit: 60 * time.Second, run: loss,
		about: "A kernel that writes to a wild address breaks the context. Two devices on the card lose it, and so does a server in the same process.",
	}, {
		name: "sharing", title: "Two servers on one card", limit: 75 * time.Second, run: sharing,
		about: "Two processes multiply matrices at the same time, each with 30 % of the card's memory. Then one of them breaks its context.",
	},
}
