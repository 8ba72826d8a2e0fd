// Sums dot products of unsigned activations and signed weights: `first` begins a new sum, and the sum of all words with
// `valid` since then is there in the next cycle.
module accumulate (
    input wire clk,
    input wire rst,
    input wire valid,
    input wire first,
    input wire [1:0] format,  // 0 to 3: elements of 16, 8, 4 and 2 bits
    input wire [31:0] activations,
    input wire [31:0] weights,
    output reg [31:0] sum
);
    wire [31:0] result;

    xpulpnn_dotp dotp (
        .ctrl({!first, 1'b1, 1'b0, format}),
        .rs1(activations),
        .rs2(weights),
        .rd(sum),
        .result(result)
    );

    always @(posedge clk)
        if (rst)
            sum <= 0;
        else if (valid)
            sum <= result;
endmodule
