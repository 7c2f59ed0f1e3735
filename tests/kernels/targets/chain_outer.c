// SPDX-License-Identifier: Apache-2.0
/* The program's half of the chain: main to chain_3. Runs until it is killed. */
#include "chain.h"
#include "hidden.h"

static volatile unsigned int chain_sink;

CHAIN_FUNCTION int chain_3(int n)
{
	CHAIN_CALL(chain_4, 20);
}

CHAIN_FUNCTION int chain_2(int n)
{
	CHAIN_CALL(chain_3, 20);
}

CHAIN_FUNCTION int chain_1(int n)
{
	CHAIN_CALL(chain_2, 20);
}

int main(void)
{
	process_hide();
	for (;;)
		chain_sink += chain_1(1);
}
