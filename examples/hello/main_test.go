package main

func Example() {
	main()
	// Output: Hello, world
}
