// Package kernels defines the contract between ops and the executor: what a kernel is, what it sees of its step and device, and the
// registry of rows, one for each op and kind of device.
//
// A row's constructor runs once for each node of a session. It checks and decodes the attributes, so executions decode nothing. The kernel
// that it returns is called for each execution of the node, concurrently if several executions overlap.
//
// The ops are grouped in families, the packages from array to training below this one. A family has a Table, which package all registers,
// and imports no other family. Code shared by several families is in packages under internal. Packages checkpoint, events, example, files,
// png, reader, tfrecord and wav implement formats and contain no ops. Package simd has the slice functions that are written in assembly.
package kernels
